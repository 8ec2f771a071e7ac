"""Attention in linear time by positive features of the softmax kernel (MATH 10)."""

from coupledgp.attention.linear import attend, causal_attention, full_attention
from coupledgp.attention.loss import AttentionLoss, attention_loss
from coupledgp.attention.module import CoupledAttention, PositiveFeatures

__all__ = [
    "AttentionLoss",
    "CoupledAttention",
    "PositiveFeatures",
    "attend",
    "attention_loss",
    "causal_attention",
    "full_attention",
]
