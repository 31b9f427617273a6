"""SASS text to instruction counts, on lines that nvdisasm printed and on a whole cubin."""

from __future__ import annotations

from pathlib import Path

from elftools.elf.elffile import ELFFile

from tirx_bench.sass import artifact_mix, instruction_mix

# nvdisasm -c -g of the gemm_relu kernel for sm_90a, with lines left out.
SASS = """
\t.target\tsm_90a
//--------------------- .text.gemm_relu_kernel   --------------------------
        .size           gemm_relu_kernel,(.L_x_21 - gemm_relu_kernel)
gemm_relu_kernel:
.text.gemm_relu_kernel:
\t//## File "/kernels/HGMMA 64/kernel.cu", line 361
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*00e0*/                   R2UR UR9, R2 ;
        /*00f0*/               @P0 BRA `(.L_x_1) ;
        /*0330*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8 ;
        /*0340*/              @!UP0 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0350*/              @UP1 UMOV UR4, 0x400 ;
        /*0360*/              @UPT UMOV UR5, 0x400 ;
        /*0490*/              @!P0 NANOSLEEP.SYNCS 0x989680 ;
        /*04a0*/              @!P0 SYNCS.PHASECHK.TRANS64 P0, [R6+URZ], R5 ;
        /*04b0*/              @!PT BRA `(.L_x_5) ;
.L_x_5:
        /*0640*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24, UP0 ;
        /*06d0*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24 ;
        /*0810*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24, gsb0 ;
        /*10000*/                  NOP ;
"""


def test_an_instruction_counts_by_its_first_word_with_and_without_a_predicate():
    assert instruction_mix(SASS) == {
        "HGMMA": 3, "BRA": 2, "UMOV": 2, "LDC": 1, "R2UR": 1, "USETMAXREG": 1, "UIADD3": 1, "NANOSLEEP": 1, "SYNCS": 1, "NOP": 1,
    }  # fmt: skip


def test_the_commonest_instruction_comes_first():
    assert list(instruction_mix(SASS))[:3] == ["HGMMA", "BRA", "UMOV"]


def test_text_without_instructions_has_no_mix():
    assert instruction_mix("") == instruction_mix(".text.kernel:\n.L_x_0:\n") == {}


def test_every_instruction_of_a_cubin_is_counted(artifact):
    """An instruction takes 16 bytes, so the code section's size is the count."""
    with Path(artifact.folder, "kernel.cubin").open("rb") as file:
        size = ELFFile(file).get_section_by_name(".text.warp_roles_kernel").data_size
    mix = artifact_mix(artifact)
    assert sum(mix.values()) == size // 16
    assert mix["LDG"] == mix["STG"] == 1 and mix["BAR"] == 1
