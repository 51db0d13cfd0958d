// Counts launches and uploads of a step, with a back end that does nothing else.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "jit/base/args.h"
#include "jit/step/step_fixtures.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/state_storage.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// Records launches. Its device memory is host memory.
class RecordingBackend : public Backend {
 public:
  std::vector<std::string> launched;
  std::vector<std::int64_t> items;
  std::vector<std::string> built_at_once;
  int uploads = 0;
  int hyper_index = -1;   // of the second tensor, in the last launch
  int first_tensor = -1;  // of the work items of the last launch
  bool fails = false;     // uploads throw
  std::int64_t cached = 0;
  std::optional<std::size_t> failing_launch;

  Target target() const override { return Target::cpu(); }
  std::shared_ptr<const Kernel> load(const std::string&, const std::string&) override { return {}; }
  void build_all(const std::vector<NamedText>& units) override {
    for (const NamedText& unit : units) built_at_once.push_back(unit.name);
  }
  std::unique_ptr<Launches> launches(std::shared_ptr<const Kernel>,
                                     const std::vector<std::string>& entries,
                                     const KernelConfig&) override {
    return std::make_unique<Recorder>(*this, entries);
  }
  std::int64_t cached_elements() const override { return cached; }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    return {std::calloc(bytes, 1), &std::free};
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    if (fails) throw Error("no upload");
    ++uploads;
    std::memcpy(to, from, bytes);
  }

 private:
  struct Recorder : Launches {
    Recorder(RecordingBackend& m, std::vector<std::string> e) : backend(m), entries(std::move(e)) {}
    void launch(int entry, const Args& args) override { record(entries[entry], args); }
    void launch_backwards(int entry, const Args& args) override {
      record(entries[entry] + " backwards", args);
    }
    void record(const std::string& name, const Args& args) {
      if (backend.launched.size() == backend.failing_launch) throw Error("no launch");
      backend.launched.push_back(name);
      backend.items.push_back(args.item_count);
      backend.hyper_index = args.steps[1].hyper_index;
      backend.first_tensor = args.items == nullptr ? -1 : args.items[0].tensor;
    }
    RecordingBackend& backend;
    std::vector<std::string> entries;
  };
};

std::vector<std::string> launches_of(const Plan& plan, RecordingBackend& backend) {
  Step(backend, {{plan, tensors(700, 33)}}).run(inputs(700), {at_step(1)});
  return backend.launched;
}

TEST(Step, SevenHundredTensorsNeedOneLaunch) {
  RecordingBackend backend;
  EXPECT_EQ(launches_of(plan("adamw", false), backend), std::vector<std::string>{"jitstep_apply"});
  EXPECT_EQ(backend.items.back(), 700);
}

TEST(Step, APassWithASumNeedsTwoMore) {
  RecordingBackend backend;
  EXPECT_EQ(
      launches_of(plan("lamb", true), backend),
      (std::vector<std::string>{"jitstep_partials_0", "jitstep_finalize_0", "jitstep_partials_1",
                                "jitstep_finalize_1", "jitstep_apply"}));
}

using Names = std::vector<std::string>;

TEST(CacheBlocks, RunAllPassesForTensorsThatFitIntoTheCache) {
  RecordingBackend backend;
  backend.cached = 66;
  Step step(backend, {{plan("lamb"), tensors(3, 33)}});
  step.run(inputs(3), {at_step(1)});
  const Names block = {"jitstep_partials_0", "jitstep_finalize_0", "jitstep_apply backwards"};
  Names two = block;
  two.insert(two.end(), block.begin(), block.end());
  EXPECT_EQ(backend.launched, two);
  EXPECT_EQ(backend.items, (std::vector<std::int64_t>{2, 2, 2, 1, 1, 1}));
}

TEST(CacheBlocks, HaveAtLeastOneTensor) {
  RecordingBackend backend;
  backend.cached = 1;
  Step(backend, {{plan("lamb"), tensors(2, 9000)}}).run(inputs(2), {at_step(1)});
  EXPECT_EQ(backend.items, (std::vector<std::int64_t>{3, 1, 3, 3, 1, 3}));
}

TEST(CacheBlocks, HaveOnlyActiveTensors) {
  RecordingBackend backend;
  backend.cached = 20;
  Step step(backend, {{plan("lamb"), tensors(5, 10)}});
  std::vector<StepInput> given = inputs(5);
  for (const int i : {0, 2, 3}) given[i] = {.inactive = true};
  step.run(given, {at_step(1)});
  EXPECT_EQ(backend.items, std::vector<std::int64_t>(6, 1));
}

TEST(CacheBlocks, BeginAfterSumsOverAllTensors) {
  RecordingBackend backend;
  backend.cached = 1;
  Step(backend, {{plan("lamb", true), tensors(2, 33)}}).run(inputs(2), {at_step(1)});
  const Names block = {"jitstep_partials_1", "jitstep_finalize_1", "jitstep_apply backwards"};
  Names all = {"jitstep_partials_0", "jitstep_finalize_0"};
  for (int i = 0; i < 2; ++i) all.insert(all.end(), block.begin(), block.end());
  EXPECT_EQ(backend.launched, all);
}

TEST(CacheBlocks, AreOfNoUseWithoutSumsOfTensors) {
  RecordingBackend backend;
  backend.cached = 1;
  Step(backend, {{plan("adamw", true), tensors(2, 33)}}).run(inputs(2), {at_step(1)});
  EXPECT_EQ(backend.launched, (Names{"jitstep_partials_0", "jitstep_finalize_0", "jitstep_apply"}));
}

TEST(CacheBlocks, AHostTransformComesBeforeThem) {
  RecordingBackend backend;
  backend.cached = 1;
  OptionValues values("normuon");
  values.set("centralization", 1.0);
  std::vector<StepTensor> matrices = tensors(2, 12);
  for (StepTensor& matrix : matrices) {
    matrix.shape = {{3, 4}, {4, 1}};
    matrix.g_strides = {4, 1};
    matrix.slots.resize(1);
    matrix.aux_state = {{somewhere(100 + matrix.id), somewhere(200 + matrix.id)}};
  }
  Step step(backend, {{resolve(values), matrices}});
  std::size_t before = 0;
  step.run(inputs(2), {at_step(1)}, [&](const auto&) { before = backend.launched.size(); });
  EXPECT_EQ(Names(backend.launched.begin(), backend.launched.begin() + 3),
            (Names{"jitstep_partials_0", "jitstep_finalize_0", "jitstep_host_transform"}));
  ASSERT_EQ(before, 3u);
  const Names after(backend.launched.begin() + static_cast<std::ptrdiff_t>(before),
                    backend.launched.end());
  ASSERT_EQ(after.size() % 2, 0u);
  EXPECT_TRUE(
      std::equal(after.begin(), after.begin() + after.size() / 2, after.begin() + after.size() / 2))
      << "the same launches for both tensors";
}

TEST(CacheBlocks, AFailedLaunchEndsTheStep) {
  RecordingBackend backend;
  backend.cached = 1;
  Step step(backend, {{plan("lamb"), tensors(2, 33)}});
  step.prepare(inputs(2), {at_step(1)});
  backend.failing_launch = 4;
  EXPECT_THROW(step.launch(), Error);
  EXPECT_EQ(backend.launched.size(), 4u) << "the first tensor, and partial sums of the second";
  backend.failing_launch.reset();
  EXPECT_THROW(step.launch(), Error) << "nothing is prepared";
  backend.launched.clear();
  step.run(inputs(2), {at_step(1)});
  EXPECT_EQ(backend.launched.size(), 6u);
}

TEST(Step, TablesAreSentAgainOnlyWhenTheyChange) {
  RecordingBackend backend;
  Step step(backend, {{plan("adamw"), tensors(3, 10)}});
  std::vector<StepInput> given = inputs(3);
  HyperParams set{};
  const auto uploads_of_a_step = [&] {
    ++set.t;
    const int before = backend.uploads;
    step.run(given, {set});
    return backend.uploads - before;
  };
  EXPECT_EQ(uploads_of_a_step(), 2);  // step records and hyperparameters
  EXPECT_EQ(uploads_of_a_step(), 1);  // only t
  given[1].g = &set;
  EXPECT_EQ(uploads_of_a_step(), 2);
}

TEST(Step, ChecksInputsAgainIfTheyOrTheHyperParamsChange) {
  RecordingBackend backend;
  Step step(backend, {{plan("adamw"), tensors(3, 10)}});
  std::vector<StepInput> given = inputs(3);
  given[1].hyper_index = 1;
  const std::vector<HyperParams> one = {at_step(1)}, two = {at_step(1), at_step(1)};
  step.run(given, two);
  EXPECT_THROW(step.run(given, one), Error);
  std::vector<StepInput> wrong = given;
  wrong[2].g = nullptr;
  for (int attempt = 0; attempt < 2; ++attempt) EXPECT_THROW(step.run(wrong, two), Error);
  EXPECT_NO_THROW(step.run(given, two));
}

TEST(Step, ReadsItsOwnHyperParamsAfterASwitchOfMode) {
  RecordingBackend backend;
  SharedState shared_state = make_shared_state(backend, OptionValues("schedulefree_adamw"));
  Step step(backend, {{plan("schedulefree_adamw"), tensors(2, 10)}}, &shared_state);
  std::vector<StepInput> given = inputs(2);
  given[1].hyper_index = 1;
  const std::vector<HyperParams> sets = {at_step(1), at_step(1)};
  for (int round = 0; round < 2; ++round) {
    step.run(given, sets);
    EXPECT_EQ(backend.hyper_index, 1);
    step.run(Mode::eval, given, sets);
    EXPECT_EQ(backend.hyper_index, 2) << "a switch reads pairs";
  }
}

TEST(Step, ComparesOptionsOfSharedStateAmongTheTensorsThatShareIt) {
  RecordingBackend backend;
  const Plan sharing = plan("schedulefree_adamw");
  SharedState shared = make_shared_state(backend, OptionValues("schedulefree_adamw"));
  Step step(backend, {{plan("adamw"), tensors(2, 10)}, {sharing, tensors(2, 10, 2)}}, &shared);
  const OptionValues options("schedulefree_adamw");
  OptionValues faster = options;
  faster.set("lr", 0.5);
  std::vector<HyperParams> sets = {at_step(1), sharing.at_step(options, 1)};
  std::vector<StepInput> given = inputs(4);
  given[2].hyper_index = given[3].hyper_index = 1;
  step.run(given, sets);
  sets.push_back(sharing.at_step(faster, 1));
  given[3].hyper_index = 2;
  EXPECT_THROW(step.run(given, sets), Error);
}

TEST(Step, SendsWorkItemsThatALastStepCouldNotSend) {
  RecordingBackend backend;
  Step step(backend, {{plan("adamw"), tensors(3, 10)}});
  std::vector<StepInput> given = inputs(3);
  step.run(given, {at_step(1)});
  given[0] = {.inactive = true};
  backend.fails = true;
  EXPECT_THROW(step.run(given, {at_step(1)}), Error);
  backend.fails = false;
  step.run(given, {at_step(1)});
  EXPECT_EQ(backend.items.back(), 2);
  EXPECT_EQ(backend.first_tensor, 1) << "the items are those of the step before";
}

TEST(Step, CompilesTheKernelsOfAllBatchesAtOnce) {
  RecordingBackend backend;
  const Step step(backend, {{plan("lamb"), tensors(3, 10)}, {plan("adamw"), tensors(2, 10, 3)}});
  EXPECT_EQ(backend.built_at_once,
            (std::vector<std::string>{"lamb_fp32_float32", "adamw_fp32_float32"}));
}

TEST(Step, InactiveTensorsHaveNoWorkItems) {
  RecordingBackend backend;
  Step step(backend, {{plan("lamb", true), tensors(3, 10)}, {plan("adamw"), tensors(2, 10, 3)}});
  std::vector<StepInput> given = inputs(5);
  const auto items_of_a_step = [&] {
    backend.items.clear();
    step.run(given, {at_step(1)});
    return backend.items;
  };
  using Items = std::vector<std::int64_t>;
  const Items all = items_of_a_step();
  given[1] = {.inactive = true};
  const Items two_of_three = items_of_a_step();
  ASSERT_EQ(two_of_three.size(), all.size());
  EXPECT_EQ(two_of_three.front(), 2) << "partial sums";
  EXPECT_EQ(two_of_three.back(), 2) << "those of the other kernel";
  given[0] = given[2] = {.inactive = true};
  EXPECT_EQ(items_of_a_step(), (Items{2, 1, 2})) << "of the kernel with active tensors only";
  given[3] = given[4] = {.inactive = true};
  EXPECT_EQ(items_of_a_step(), Items{});
  given = inputs(5);
  EXPECT_EQ(items_of_a_step(), all);
}

TEST(Step, TheSetOfInactiveTensorsIsSentWhenItChanges) {
  RecordingBackend backend;
  Step step(backend, {{plan("adamw"), tensors(3, 10)}});
  std::vector<StepInput> given = inputs(3);
  const auto uploads_of_a_step = [&] {
    const int before = backend.uploads;
    step.run(given, {at_step(1)});
    return backend.uploads - before;
  };
  uploads_of_a_step();
  given[2] = {.inactive = true};
  EXPECT_EQ(uploads_of_a_step(), 2) << "the items and the inputs";
  EXPECT_EQ(uploads_of_a_step(), 0);
}

TEST(Step, EmptyTensorsHaveNoWorkItems) {
  RecordingBackend backend;
  const Plan lamb = plan("lamb", true);
  Step(backend, {{lamb, tensors(4, 0)}}).run(inputs(4), {at_step(1)});
  for (const auto& entry : backend.launched) EXPECT_EQ(entry, "jitstep_finalize_0");
}

TEST(StepTables, ItemsCoverEveryLeafOnce) {
  const Plan lamb = plan("lamb", false);
  const KernelConfig config{256, 32, 4, 8};
  const auto tables = step_tables(tensors(1, 256 * 21 + 5), lamb.reductions, 1, config);
  ASSERT_EQ(tables.apply.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(tables.apply[i].first, 8 * static_cast<int>(i));
  const ReductionLayout& space = tables.tensors[0].reduction_layouts[0];
  EXPECT_EQ(space.leaves, 24);  // 22, padded to a multiple of 8
  EXPECT_EQ(space.log2_leaves, 3);
  EXPECT_EQ(tables.partial_count[0], 3);
}

TEST(Layout, CompactStridesFollowTheOrderInMemory) {
  EXPECT_EQ(compact_strides({{2, 3, 4}, {12, 4, 1}}), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_EQ(compact_strides({{2, 3, 4}, {1, 8, 2}}), (std::vector<std::int64_t>{1, 8, 2}));
  EXPECT_EQ(compact_strides({{2, 3}, {10, 2}}), (std::vector<std::int64_t>{3, 1}));
  EXPECT_TRUE(is_non_overlapping({{2, 3}, {10, 2}}));
  EXPECT_FALSE(is_non_overlapping({{2, 3}, {1, 1}}));
  EXPECT_FALSE(is_non_overlapping({{4, 3}, {0, 1}}));
  EXPECT_TRUE(is_non_overlapping({{0, 3}, {0, 0}}));
}

}  // namespace
}  // namespace jitstep::jit
