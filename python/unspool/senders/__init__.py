"""Senders of weights: one interface, and a class for each way to a server."""

from .base import Sent, WeightSender
from .directory import DirectorySender
from .gloo import GlooSender
from .shared_memory import SharedMemorySender

__all__ = ["DirectorySender", "GlooSender", "Sent", "SharedMemorySender", "WeightSender"]
