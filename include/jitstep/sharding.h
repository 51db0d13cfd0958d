// Optimizers whose state several ranks share. This header includes c10d, which jitstep.h does not.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "jitstep/optimizer.h"

/// Optimizer::shard() takes any c10d::ProcessGroup, for example over gloo or NCCL:
///
///   jitstep::AdamW optimizer(model->parameters(), jitstep::AdamWOptions(1e-3).state("int8"));
///   optimizer.shard(group);
///
/// docs/guides/distributed.md shows how to make a group, and what is promised.
