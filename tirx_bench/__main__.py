from tirx_bench.cli import console

console()
