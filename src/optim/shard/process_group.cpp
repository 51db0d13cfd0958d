#include "optim/shard/process_group.h"

#include <algorithm>
#include <exception>

#include "optim/shard/collectives.h"

namespace jitstep {
namespace {

class ProcessRanks final : public RankGroup {
 public:
  explicit ProcessRanks(c10::intrusive_ptr<c10d::ProcessGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  torch::Tensor all_gather(const torch::Tensor& mine) override {
    const torch::Tensor own = on_group(mine);
    const torch::Tensor all = torch::empty({size() * own.numel()}, own.options());
    const Result result = start("all-gather", own, all, all_gather_by<c10d::ProcessGroup>);
    return result().view({size(), own.numel()}).to(mine.device());
  }

  Result start_all_to_all(const torch::Tensor& mine, const std::vector<std::int64_t>& to,
                          const std::vector<std::int64_t>& from) override {
    std::int64_t count = 0;
    for (const std::int64_t one : from) count += one;
    const torch::Tensor own = on_group(mine);
    const Result result = start("all-to-all", own, torch::empty({count}, own.options()),
                                [&](auto& group, auto& all, auto& sent) {
                                  return all_to_all_by(group, all, sent, from, to);
                                });
    return [result, device = mine.device()] { return result().to(device); };
  }

  Result start_reduce_scatter(const torch::Tensor& mine) override {
    const torch::Tensor own = on_group(mine);
    const Result result =
        start("reduce-scatter", own, torch::empty({own.numel() / size()}, own.options()),
              [](auto& group, auto& row, auto& all) { return reduce_scatter_by(group, row, all); });
    return [result, device = mine.device()] { return result().to(device); };
  }

 private:
  // The tensor, or a copy on a device that the back ends of the group know: the CPU for gloo, this process's current GPU
  // for NCCL alone.
  torch::Tensor on_group(const torch::Tensor& tensor) const {
    const auto devices = group_->getDeviceTypes();
    const auto knows = [&](torch::DeviceType type) {
      return std::any_of(devices.begin(), devices.end(),
                         [&](const torch::Device& device) { return device.type() == type; });
    };
    if (devices.empty() || knows(tensor.device().type())) return tensor;
    if (knows(torch::kCPU)) return tensor.cpu();
    return tensor.to(group_->getBoundDeviceId().value_or(devices.front()));
  }

  // Calls `collective(group, received, sent)`, whose tensors live until the result is there.
  template <class Collective>
  Result start(const char* what, torch::Tensor sent, torch::Tensor received,
               Collective&& collective) const {
    Work work;
    named(what, [&] { work = collective(*group_, received, sent); });
    return [this, what, work, sent, received] {
      named(what, [&] { work->wait(); });
      return received;
    };
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
