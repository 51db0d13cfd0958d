// A torch process group as a RankGroup.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "optim/shard/rank_group.h"

namespace c10d {
class ProcessGroup;
}

namespace jitstep {

/// The ranks of a process group. Tensors on devices that the group does not support travel through the host. Throws a
/// c10::Error for a null pointer.
std::shared_ptr<RankGroup> ranks_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace jitstep
