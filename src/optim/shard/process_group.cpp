// The only source that calls c10d. Its C++ interface changes between versions of torch.
#include "optim/shard/process_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <exception>

namespace jitstep {
namespace {

// torch 2.13 has renamed these functions, and warns about the old names.
template <class Group>
auto all_gather_by(Group& group, torch::Tensor& all, torch::Tensor& mine) {
  if constexpr (requires { group.all_gather_single(all, mine); })
    return group.all_gather_single(all, mine);
  else
    return group._allgather_base(all, mine);
}
template <class Group>
auto all_to_all_by(Group& group, torch::Tensor& all, torch::Tensor& mine,
                   std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
  if constexpr (requires { group.all_to_all_single(all, mine, from, to); })
    return group.all_to_all_single(all, mine, from, to);
  else
    return group.alltoall_base(all, mine, from, to);
}

class ProcessRanks final : public RankGroup {
 public:
  explicit ProcessRanks(c10::intrusive_ptr<c10d::ProcessGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  torch::Tensor all_gather(const torch::Tensor& mine) override {
    torch::Tensor own = on_group(mine);
    torch::Tensor all = torch::empty({size() * own.numel()}, own.options());
    named("all-gather", [&] { all_gather_by(*group_, all, own)->wait(); });
    return all.view({size(), own.numel()}).to(mine.device());
  }

  torch::Tensor all_to_all(const torch::Tensor& mine, const std::vector<std::int64_t>& to,
                           const std::vector<std::int64_t>& from) override {
    torch::Tensor own = on_group(mine);
    std::int64_t count = 0;
    for (const std::int64_t one : from) count += one;
    torch::Tensor all = torch::empty({count}, own.options());
    std::vector<std::int64_t> sent = to, received = from;
    named("all-to-all", [&] { all_to_all_by(*group_, all, own, received, sent)->wait(); });
    return all.to(mine.device());
  }

 private:
  torch::Tensor on_group(const torch::Tensor& tensor) const {
    const auto types = group_->getDeviceTypes();
    const bool direct = std::any_of(types.begin(), types.end(), [&](const torch::Device& device) {
      return device.type() == tensor.device().type();
    });
    return direct ? tensor : tensor.cpu();
  }

  // Back ends report a lost connection as different types. Users get one type, which says whose step failed.
  template <class Action>
  void named(const char* what, Action&& action) const {
    try {
      action();
    } catch (const std::exception& error) {
      TORCH_CHECK(false, "jitstep: rank ", rank(), " of ", size(), ": the ", what,
                  " with the other ranks failed: ", error.what(),
                  ". Another rank has ended or does not answer. See its log.");
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace

std::shared_ptr<RankGroup> ranks_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  TORCH_CHECK(group,
              "jitstep: shard() and average_gradients() need a process group. Pass one, such as a "
              "c10d::ProcessGroup over gloo or NCCL.");
  return std::make_shared<ProcessRanks>(group);
}

}  // namespace jitstep
