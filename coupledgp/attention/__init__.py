"""Attention in linear time by positive features of the softmax kernel (MATH 10)."""

from coupledgp.attention.linear import attend as attend
from coupledgp.attention.linear import causal_attention as causal_attention
from coupledgp.attention.linear import full_attention as full_attention
from coupledgp.attention.loss import AttentionLoss as AttentionLoss
from coupledgp.attention.loss import attention_loss as attention_loss
from coupledgp.attention.module import CoupledAttention as CoupledAttention
from coupledgp.attention.module import LeveledFeatures as LeveledFeatures
from coupledgp.attention.module import PositiveFeatures as PositiveFeatures
from coupledgp.attention.proposal import attention_proposal as attention_proposal
