// Ranks as processes. One of them is killed or hangs at each of its collective calls. The others throw, and know whether
// their parameters are still those of their state.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "optim_shard/ranks.h"
#include "support/child.h"
#include "support/own_folder.h"

namespace jitstep::tests {
namespace {

constexpr int kRanks = 3;
constexpr auto kTimeout = std::chrono::seconds(5);

/// gloo, with a fault in a later call.
class FaultyGloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// Calls `fault` before the `call`-th collective call from now on, counted from 1.
  void fail_at(int call, std::function<void()> fault) {
    left_ = call;
    fault_ = std::move(fault);
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(torch::Tensor& out, torch::Tensor& in,
                                                 const c10d::AllgatherOptions& options) override {
    count();
    return ProcessGroupGloo::_allgather_base(out, in, options);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(torch::Tensor& out, torch::Tensor& in,
                                               std::vector<std::int64_t>& from,
                                               std::vector<std::int64_t>& to,
                                               const c10d::AllToAllOptions& options) override {
    count();
    return ProcessGroupGloo::alltoall_base(out, in, from, to, options);
  }

 private:
  void count() {
    if (--left_ == 0) fault_();
  }

  int left_ = 0;
  std::function<void()> fault_;
};

using Gloo = c10::intrusive_ptr<FaultyGloo>;

// A rank's process: its group, its model, and an optimizer that has taken a step.
struct Rank {
  Rank(int rank, const std::string& store_file) : parameters(model()) {
    std::signal(SIGPIPE, SIG_IGN);
    at::set_num_threads(1);
    const auto store = c10::make_intrusive<c10d::FileStore>(store_file, kRanks);
    gloo = c10::make_intrusive<FaultyGloo>(store, rank, kRanks, gloo_options(kTimeout));
    optimizer = Optimizer::from_spec(
        parameters, R"({"rule": "lamb", "state": "int8", "options": {"max_grad_norm": 0.5}})");
    optimizer->shard(group_of(store, rank, kRanks, gloo));
    step(1);
  }

  void step(int number) {
    set_gradients(parameters, number);
    optimizer->step();
  }

  // The error of `action`, "" for none.
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const c10::Error& error) {
      return error.what();
    }
    return "";
  }

  Tensors parameters;
  Gloo gloo;
  std::unique_ptr<Optimizer> optimizer;
};

// What a rank that goes on has after step 2: "stepped", "unchanged", "ahead" (its state is ahead of its parameters), or
// what is wrong.
std::string outcome_of_step(Rank& rank) {
  Tensors before;
  for (const torch::Tensor& p : rank.parameters) before.push_back(p.detach().clone());
  const auto start = std::chrono::steady_clock::now();
  const std::string error = rank.error_of([&] { rank.step(2); });
  if (std::chrono::steady_clock::now() - start > 2 * kTimeout) return "took too long";
  if (error.empty()) return "stepped";
  if (error.find("rank ") == error.npos) return "names no rank: " + error;
  if (rank.error_of([&] { rank.step(3); }).find("Load a checkpoint") != std::string::npos)
    return "ahead";
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!torch::equal(before[i], rank.parameters[i])) return "changed";
  return "unchanged";
}

class Processes : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path + "/" + name; }

  // Runs `work` on all ranks, with a fault of rank 1 at this call after its first step. Returns their results.
  std::vector<std::string> run(int call, const std::function<void()>& fault,
                               const std::function<std::string(Rank&)>& work) {
    const std::string store = file("store" + std::to_string(++stores_));
    return jitstep::testing::in_children(kRanks, [&](int number) {
      Rank rank(number, store);
      if (number == 1 && call > 0) rank.gloo->fail_at(call, fault);
      return work(rank);
    });
  }

 private:
  OwnFolder folder_;
  int stores_ = 0;
};

void kill_this_process() { ::kill(::getpid(), SIGKILL); }

TEST_F(Processes, ThrowIfARankIsKilledAtAnyCallOfAStep) {
  std::set<std::string> seen;
  for (int call = 1;; ++call) {
    const auto outcomes = run(call, kill_this_process, outcome_of_step);
    if (outcomes[1] == "stepped") {
      EXPECT_GT(call, 3) << "a step has a check, an exchange of sums, and one of parameters";
      break;
    }
    for (const std::size_t rank : {0, 2}) {
      const std::string what = "call " + std::to_string(call) + ": " + outcomes[rank];
      EXPECT_TRUE(outcomes[rank] == "unchanged" || outcomes[rank] == "ahead") << what;
      EXPECT_TRUE(call > 1 || outcomes[rank] == "unchanged") << what;
      seen.insert(outcomes[rank]);
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"ahead", "unchanged"}));
}

TEST_F(Processes, ThrowWithinTheTimeoutIfARankHangs) {
  const auto outcomes = run(
      1, [] { std::this_thread::sleep_for(3 * kTimeout); }, outcome_of_step);
  for (const std::size_t rank : {0, 2}) EXPECT_EQ(outcomes[rank], "unchanged");
}

// The parameter: whether the checkpoint is a folder.
class Saves : public Processes, public ::testing::WithParamInterface<bool> {
 protected:
  std::string save(Rank& rank) const {
    return rank.error_of([&] {
      GetParam() ? rank.optimizer->save_parts(checkpoint_) : rank.optimizer->save(checkpoint_);
    });
  }
  std::vector<std::string> load() {
    return run(0, {}, [&](Rank& rank) {
      return rank.error_of([&] { rank.optimizer->load(checkpoint_); });
    });
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(checkpoint_), {}));
  }

  const std::string checkpoint_ = file("checkpoint");
};

INSTANTIATE_TEST_SUITE_P(In, Saves, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "folder" : "file"; });

TEST_P(Saves, KeepTheOldCheckpointIfARankIsKilled) {
  const auto saved = [&](Rank& rank) { return save(rank); };
  ASSERT_EQ(run(0, {}, saved), no_errors(kRanks));
  int call = 1;
  for (; call < 100; ++call) {
    const auto errors = run(call, kill_this_process, saved);
    EXPECT_EQ(load(), no_errors(kRanks)) << call;
    if (errors[1].empty()) break;
    EXPECT_NE(errors[0], "") << call;
  }
  EXPECT_GT(call, 1);
  EXPECT_LT(call, 100);
  if (!GetParam()) return;
  EXPECT_EQ(files(), kRanks + 1u) << "files of killed ranks remain";
}

// One process, which is killed at each of its system calls.
TEST_F(Processes, KeepAWholeFolderIfTheyAreKilledAtAnySystemCallOfASave) {
  const std::string folder = file("parts");
  const auto optimizer_after = [](int steps, const Tensors& parameters) {
    auto optimizer = std::make_unique<AdamW>(parameters, AdamWOptions(0.01).state("int8"));
    parameters[0].mutable_grad() = torch::ones_like(parameters[0]);
    for (int step = 1; step <= steps; ++step) optimizer->step();
    return optimizer;
  };
  const Tensors one = {model()[0]}, other = {model()[0]};  // few system calls
  const auto old = optimizer_after(1, one), now = optimizer_after(2, other);
  int stop = 1;
  for (std::set<std::int64_t> seen; stop < 2000; ++stop) {
    old->save_parts(folder, 2);
    const auto end = jitstep::testing::kill_at_stop(stop, [&] { now->save_parts(folder, 2); });
    if (end == jitstep::testing::Traced::not_allowed) GTEST_SKIP() << "tracing is not allowed";
    const Tensors parameters = {model()[0]};
    AdamW loaded(parameters, AdamWOptions().state("int8"));
    ASSERT_NO_THROW(loaded.load(folder)) << stop;
    const auto& state =
        static_cast<const ParamState&>(*loaded.state().at(parameters[0].unsafeGetTensorImpl()));
    seen.insert(state.step());
    EXPECT_LE(*seen.rbegin(), 2);
    if (end == jitstep::testing::Traced::finished) {
      EXPECT_EQ(state.step(), 2);
      EXPECT_EQ(seen.size(), 2u);
      break;
    }
  }
  EXPECT_GT(stop, 20);
  EXPECT_LT(stop, 2000);
}

TEST_F(Processes, KeepTheOldFolderIfTheDiskIsFull) {
  const std::string folder = file("parts");
  std::filesystem::create_directory(folder);
  std::set<std::string> seen;
  for (int kib = 40; kib < 400; kib += 8) {
    const std::string result = jitstep::testing::on_a_small_disk(folder, kib, [&]() -> std::string {
      at::set_num_threads(1);
      const Tensors parameters = model();
      AdamW optimizer(parameters, AdamWOptions(0.01).state("int8"));
      set_gradients(parameters, 1);
      optimizer.step();
      try {
        optimizer.save_parts(folder, 2);
      } catch (const c10::Error&) {
        return std::filesystem::is_empty(folder) ? "nothing fits" : "a part remains";
      }
      std::string error;
      try {
        optimizer.save_parts(folder, 3);
      } catch (const c10::Error& failed) {
        error = failed.what_without_backtrace();
      }
      AdamW loaded(model(), AdamWOptions().state("int8"));
      loaded.load(folder);
      const auto files = std::distance(std::filesystem::directory_iterator(folder), {});
      if (error.empty()) return files == 4 ? "both fit" : "old files remain";
      if (error.find("No space left") == error.npos) return error;
      return files == 3 ? "one fits" : "new files remain";
    });
    if (result == jitstep::testing::kNotAllowed) GTEST_SKIP() << result;
    seen.insert(result);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"nothing fits", "one fits", "both fit"}));
}

}  // namespace
}  // namespace jitstep::tests
