"""The doors to the outside, as Protocols, and the plain records that pass through them.

Actions know only this package. What stands behind a door is chosen in `targets`: a real adapter, or a fake
from the tests. Nothing that passes a door carries a foreign type: times are aware `datetime`s in UTC, states
are our own words, failures are `TrnctlError`s.
"""

from trnctl.ports.account import (
    NETWORK_TAG,
    Account,
    Identity,
    KeyPair,
    MachineImage,
    NetworkStack,
    Reservation,
    Subnet,
    Vpc,
    WayOut,
)
from trnctl.ports.allocation import Allocation, Allocator
from trnctl.ports.cache import CacheEntry, CachePicture, CacheWish, Compile, CompileCache, Lock, Pruned, Unlocked
from trnctl.ports.cloud import Cloud, FileSystem, Fleet, Instance, Observed, Phase, Resource, Stack, StoredObject
from trnctl.ports.evidence import Gathered, HeadEvidence, SavedText
from trnctl.ports.export import Exported, ExportStep, RunExport
from trnctl.ports.files import HeadFiles, Transfer, Transferred
from trnctl.ports.health import CheckProgress, Drained, HealthCheck, HealthReport, Link, NodeFinding, NodeHealth
from trnctl.ports.ledger import FleetLedger
from trnctl.ports.monitor import JobLoad, LoadMonitor, LoadPicture, NodeLoad
from trnctl.ports.provisioner import BuiltImage, Change, ClusterSummary, ImageState, Provisioner, StackEvent
from trnctl.ports.queue import (
    ENDED,
    File,
    FollowEvent,
    Job,
    JobQueue,
    JobState,
    LineLost,
    LogLine,
    Need,
    NodeGroup,
    QueuePicture,
    Resumed,
    RunOver,
    RunRecord,
    Stage,
    StageState,
    Submission,
    Submitted,
)
from trnctl.ports.services import Clock, HeadDoor, Services
from trnctl.ports.shell import CommandFailed, Completed, Shell

__all__ = [
    "ENDED",
    "NETWORK_TAG",
    "Account",
    "Allocation",
    "Allocator",
    "BuiltImage",
    "CacheEntry",
    "CachePicture",
    "CacheWish",
    "Change",
    "CheckProgress",
    "Clock",
    "Cloud",
    "ClusterSummary",
    "CommandFailed",
    "Compile",
    "CompileCache",
    "Completed",
    "Drained",
    "ExportStep",
    "Exported",
    "File",
    "FileSystem",
    "Fleet",
    "FleetLedger",
    "FollowEvent",
    "Gathered",
    "HeadDoor",
    "HeadEvidence",
    "HeadFiles",
    "HealthCheck",
    "HealthReport",
    "Identity",
    "ImageState",
    "Instance",
    "Job",
    "JobLoad",
    "JobQueue",
    "JobState",
    "KeyPair",
    "LineLost",
    "Link",
    "LoadMonitor",
    "LoadPicture",
    "Lock",
    "LogLine",
    "MachineImage",
    "Need",
    "NetworkStack",
    "NodeFinding",
    "NodeGroup",
    "NodeHealth",
    "NodeLoad",
    "Observed",
    "Phase",
    "Provisioner",
    "Pruned",
    "QueuePicture",
    "Reservation",
    "Resource",
    "Resumed",
    "RunExport",
    "RunOver",
    "RunRecord",
    "SavedText",
    "Services",
    "Shell",
    "Stack",
    "StackEvent",
    "Stage",
    "StageState",
    "StoredObject",
    "Submission",
    "Submitted",
    "Subnet",
    "Transfer",
    "Transferred",
    "Unlocked",
    "Vpc",
    "WayOut",
]
