"""Any words on any nodes are judged: legal with whole numbers, or refused with the way out; never a crash."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proposals import P4D, P4DE, P5, TRN2, proposal
from tests.recipes import TRN1
from trnctl.plan.outlook import outlook
from trnctl.plan.proposal import Proposal
from trnctl.plan.suggest import reconsidered
from trnctl.plan.targets import compiled
from trnctl.specs.model import PRESETS
from trnctl.specs.parallelism import BACKENDS, CHECKPOINTING, COLLECTIVES, Activation, Parallelism
from trnctl.specs.workload import Batch

DEGREES = st.sampled_from([1, 1, 1, 2, 3, 4, 8, 16, 32, 64])
MAYBE = st.sampled_from([None, True, False])
WORDS = st.builds(
    Parallelism,
    backend=st.sampled_from([None, *BACKENDS]),
    tensor=DEGREES,
    pipeline=DEGREES,
    context=st.sampled_from([1, 1, 2]),
    expert=st.sampled_from([1, 1, 2]),
    shard=st.sampled_from([None, "full", "none", 2, 8, 24]),
    zero=st.sampled_from([None, 0, 1, 3]),
    reshard_after_forward=MAYBE,
    sequence_parallel=MAYBE,
    ring_attention=MAYBE,
    activation=st.builds(
        Activation,
        checkpoint=st.sampled_from([None, *CHECKPOINTING]),
        offload=MAYBE,
        horizon=st.sampled_from([None, 1, 5]),
    ),
    deferred_init=MAYBE,
    collectives=st.sampled_from([None, None, *COLLECTIVES]),
    reduce=st.sampled_from([None, "fp32", "bf16"]),
    master_weights=st.sampled_from([None, "bf16"]),
    seed=st.sampled_from([None, 7]),
)
BATCHES = st.builds(
    Batch,
    global_size=st.sampled_from([1, 7, 256, 1024, 16_384]),
    micro=st.sampled_from([1, 2, 16]),
    accumulation=st.sampled_from([0, 1, 32]),
    sequence=st.sampled_from([1, 128, 8192]),
)
PROPOSALS = st.builds(
    proposal,
    WORDS,
    nodes=st.sampled_from([1, 2, 3, 4, 8, 64]),
    instance_type=st.sampled_from([TRN1, "trn1.2xlarge", "trn2.3xlarge", TRN2, P4D, P4DE, P5]),
    model=st.sampled_from(list(PRESETS)),
    batch=BATCHES,
    scaling=st.sampled_from(["strong", "weak"]),
    platform=st.sampled_from(["parallelcluster", "hyperpod"]),
)


@settings(max_examples=300, deadline=None)  # a search for what would fit may take a second where nothing does
@given(p=PROPOSALS)
def test_every_proposal_is_judged(p: Proposal) -> None:
    one = reconsidered(outlook(p))
    json.dumps(one.as_json(), allow_nan=False)
    for finding in one.findings:
        assert finding.remedy.endswith(".")
        assert finding.message.endswith((".", "?"))
    if one.status == "illegal":
        assert any(finding.level == "error" for finding in one.findings)
        return
    made = one.layout
    assert made.micro_batch * made.accumulation * made.data == made.global_batch > 0
    assert made.tensor * made.pipeline * made.context * made.data == made.world
    assert made.replicas * made.shard * made.tensor * made.pipeline == made.world
    assert one.pace is not None
    json.dumps(compiled(one.proposal).as_json())
