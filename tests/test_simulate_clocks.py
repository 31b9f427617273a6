"""The clocks of warps, kept for a whole warp as long as its lanes agree, against a model with one clock for every thread."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.simulate.clocks import FENCED, ORDERED, Domain, Order
from tirx_bench.simulate.values import FULL, WARP, Mask

WARPS = 2


def mask_of(lanes):
    bits = np.zeros(WARP, bool)
    bits[list(lanes)] = True
    return Mask(bits)


MASKS = [FULL, mask_of([0]), mask_of([3]), mask_of(range(16)), mask_of([0, 3, 31])]
ACTS = st.tuples(
    st.sampled_from(["write", "release", "acquire", "synchronise", "fence"]), st.integers(0, WARPS - 1), st.sampled_from(MASKS)
)


class Naive:
    """For every thread, the writes that are ordered before it, and those of them that are fenced."""

    def __init__(self):
        self.ordered = {(warp, lane): set() for warp in range(WARPS) for lane in range(WARP)}
        self.fenced = {thread: set() for thread in self.ordered}
        self.barrier = (set(), set())

    def write(self, warp, mask, number):
        for lane in mask.lanes:
            self.ordered[warp, lane].add((warp, lane, number))

    def release(self, warp, mask):
        for lane in mask.lanes:
            self.barrier[0].update(self.ordered[warp, lane])
            self.barrier[1].update(self.fenced[warp, lane])

    def acquire(self, warp, mask):
        for lane in mask.lanes:
            self.ordered[warp, lane] |= self.barrier[0]
            self.fenced[warp, lane] |= self.barrier[1]

    def synchronise(self, warp, mask):
        for held in (self.ordered, self.fenced):
            together = set().union(*(held[warp, lane] for lane in mask.lanes))
            for lane in mask.lanes:
                held[warp, lane] |= together

    def fence(self, warp, mask):
        for lane in mask.lanes:
            self.fenced[warp, lane] |= self.ordered[warp, lane]


def played(acts):
    """The acts in both: the domain, the warps' orders, the naive model, and the writes as (warp, lane, number, agent, epoch)."""
    domain, naive = Domain(512), Naive()
    orders, barrier, writes = [Order(domain) for _ in range(WARPS)], domain.clock(), []
    for number, (act, warp, mask) in enumerate(acts):
        order = orders[warp]
        if act == "write":
            writes += [(warp, lane, number, order.agent, order.now) for lane in mask.lanes]
            naive.write(warp, mask, number)
            continue
        if act == "release":
            np.maximum(barrier, order.release(mask), out=barrier)
        elif act == "acquire":
            order.acquire(mask, barrier)
        elif act == "synchronise":
            order.synchronise(mask)
        else:
            order.fence(mask, strict=False)
        getattr(naive, act)(warp, mask)
    return domain, orders, naive, writes


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTS, min_size=2, max_size=14))
def test_a_write_is_ordered_before_a_thread_exactly_when_it_is_for_clocks_of_every_thread(acts):
    domain, orders, naive, writes = played(acts)
    for (warp, lane), held in naive.ordered.items():
        row, own = orders[warp].clock(lane)[ORDERED], orders[warp].agent
        for writer, of_lane, number, agent, epoch in writes:
            late = domain.unordered(row, np.array([agent]), np.array([epoch]), np.array([of_lane]), own, np.array([lane]))
            assert bool(late[0]) == ((writer, of_lane, number) not in held), (warp, lane, writer, of_lane, number)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTS, min_size=2, max_size=14), st.integers(0, WARPS - 1), st.sampled_from([0, 3, 20]))
def test_what_a_thread_issues_sees_as_fenced_what_is(acts, issuer, lane):
    domain, orders, naive, writes = played(acts)
    clock = orders[issuer].release(mask_of([lane]))
    for writer, of_lane, number, agent, epoch in writes:
        alone = domain.lane_agents[agent, of_lane]
        fenced = clock[FENCED, agent] >= epoch or (alone >= 0 and clock[FENCED, alone] >= epoch)
        assert bool(fenced) == ((writer, of_lane, number) in naive.fenced[issuer, lane]), (writer, of_lane, number)
