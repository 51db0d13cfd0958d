// Training on several ranks. This header includes c10d, which jitstep.h does not.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/optimizer.h"

/// Optimizer::shard() takes any c10d::ProcessGroup, for example over gloo or NCCL:
///
///   jitstep::AdamW optimizer(model->parameters(), jitstep::AdamWOptions(1e-3).state("int8"));
///   optimizer.shard(group);
///
/// docs/guides/distributed.md shows how to make a group, and what is promised.

namespace jitstep {

/// Replaces the gradients by their mean over all ranks of the group. Call it on all ranks between backward() and step(),
/// with the parameters of the same model in the same order.
///
/// The mean is a function of the ranks' gradients alone. It does not depend on the back end, the size of buckets or
/// timing. Gradients are added as a tree over ranks, in float32 (float64 for float64), and rounded once. A rank sends
/// 2 (ranks - 1) / ranks times the bytes of the gradients, as in an all-reduce.
///
/// A parameter that has no gradient on some ranks counts as zeros there, and gets a gradient. One that has none on any
/// rank stays without. Gradients may have any layout in memory, any floating-point dtype and any device.
///
/// `bucket_bytes`: gradients of about so many bytes travel together, and as many bytes are allocated twice.
///
/// Throws a c10::Error if the group is null, a gradient is sparse, ranks differ in sizes or dtypes of parameters, or a
/// rank fails. Gradients are unchanged if ranks differ. Not thread-safe for one group.
JITSTEP_API void average_gradients(const std::vector<torch::Tensor>& parameters,
                                   const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   std::int64_t bucket_bytes = 32 << 20);

}  // namespace jitstep
