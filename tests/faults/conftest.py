"""The simulated card, and the product's own timers on it."""

from __future__ import annotations

import pytest
from simulated import Card, simulated_timers


@pytest.fixture
def card():
    return Card()


@pytest.fixture
def timers(monkeypatch, card):
    return simulated_timers(monkeypatch, card)
