"""Keys of the group compute.firebolt.io: labels, annotations and finalizers."""

from __future__ import annotations

GROUP = "compute.firebolt.io"
VERSION = "v1alpha1"

# Of labels and annotations; templates of users may not have keys under it.
PREFIX = "firebolt.io/"

# Labels.
ENGINE = f"{PREFIX}engine"  # on everything that belongs to an engine
GENERATION = f"{PREFIX}generation"  # on what belongs to one generation of it; what Services select
INSTANCE = f"{PREFIX}instance"  # on everything that belongs to an instance
COMPONENT = f"{PREFIX}component"  # which part of an instance

# Annotations of a generation's StatefulSet.
CONFIG_HASH = f"{PREFIX}custom-engine-config-hash"  # customEngineConfig as it takes effect
CLASS_HASH = f"{PREFIX}engine-class-hash"  # the class's template; absent without a class
RENDER_HASH = f"{PREFIX}render-hash"  # everything that makes a generation what it is
RENDER_INPUTS = f"{PREFIX}render-inputs"  # JSON: the hash of each of these things
RENDERER = f"{PREFIX}renderer"  # version of the code that wrote the StatefulSet

# Annotations of a FireboltEngine.
ABORT = f"{PREFIX}abort"  # number of the generation that shall not be waited for any more
RESTART = f"{PREFIX}restart"  # any text; another text makes a new generation of the same spec

# Annotation of a FireboltInstance.
DELETE_DATA = f"{PREFIX}delete-data"  # "true": the metadata's volume goes with the instance

ENGINE_FINALIZER = f"{GROUP}/engine-cleanup"
INSTANCE_FINALIZER = f"{GROUP}/instance-cleanup"
CLASS_FINALIZER = f"{GROUP}/fireboltengineclass-deletion-guard"
