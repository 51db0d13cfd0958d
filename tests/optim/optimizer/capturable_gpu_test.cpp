// Steps in CUDA graphs: each replay is one step.
#include "optim/optimizer/cuda.h"

namespace jitstep::tests {
namespace {

// Captures the work on the current stream, so that it can be replayed.
class Graph {
 public:
  explicit Graph(const std::function<void()>& work) {
    constexpr int kThreadLocal = 1;
    void* const stream = current_stream().native_handle();
    void* graph = nullptr;
    call<int(void*, int)>("cuStreamBeginCapture_v2", stream, kThreadLocal);
    try {
      work();
    } catch (...) {  // or the stream captures for the rest of the process
      driver_function<int(void*, void**)>("cuStreamEndCapture")(stream, &graph);
      throw;
    }
    call<int(void*, void**)>("cuStreamEndCapture", stream, &graph);
    call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags", &graph_, graph, 0);
    call<int(void*)>("cuGraphDestroy", graph);
  }
  ~Graph() { driver_function<int(void*)>("cuGraphExecDestroy")(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay() {
    call<int(void*, void*)>("cuGraphLaunch", graph_, current_stream().native_handle());
  }

 private:
  template <class Function, class... Arguments>
  static void call(const char* name, Arguments... arguments) {
    const int code = driver_function<Function>(name)(arguments...);
    if (code != 0) throw std::runtime_error(std::string(name) + " answers " + std::to_string(code));
  }

  void* graph_ = nullptr;
};

// Two optimizers on the device with equal parameters. The tests replay the first in graphs and step the second
// directly. The gradients of both keep their storage.
struct Twins {
  explicit Twins(const std::string& spec)
      : Twins(spec, make_parameters(torch::kFloat32, {{37, 29}, {300}, {}})) {}
  Twins(const std::string& spec, const Tensors& parameters)
      : a(to(parameters, kGpu)),
        b(clones(a)),
        captured(Optimizer::from_spec(a, spec)),
        live(Optimizer::from_spec(b, spec)) {
    for (const Tensors* all : {&a, &b})
      for (const torch::Tensor& p : *all) p.mutable_grad() = torch::zeros_like(p);
    captured->capturable();
  }

  void fill_gradients(int step) {
    torch::manual_seed(1000 + step);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto g = torch::randn(a[i].sizes()).to(kGpu);
      a[i].mutable_grad().copy_(g);
      b[i].mutable_grad().copy_(g);
    }
  }
  void step(int number) {
    fill_gradients(number);
    captured->step();
    live->step();
  }
  void replay(Graph& graph, int number) {
    fill_gradients(number);
    graph.replay();
    live->step();
  }
  void expect_equal() const {
    current_stream().synchronize();
    expect_same_bits(a, to(b, torch::kCPU));
  }
  std::int64_t steps() {
    return static_cast<ParamState&>(*captured->state().at(a[0].unsafeGetTensorImpl())).step();
  }

  Tensors a, b;
  std::unique_ptr<Optimizer> captured, live;
};

class CudaGraphs : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaGraphs, ReplayAStepAnyNumberOfTimes) {
  const c10::StreamGuard use(side_stream());
  Twins twins(GetParam());
  twins.step(1);
  Graph graph([&] { twins.captured->step(); });
  EXPECT_EQ(twins.steps(), 1) << "a capture executes nothing";
  for (int number = 2; number <= 4; ++number) twins.replay(graph, number);
  twins.expect_equal();
  EXPECT_EQ(twins.steps(), 4);
}

INSTANTIATE_TEST_SUITE_P(
    Of, CudaGraphs,
    ::testing::Values(R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})",
                      R"({"rule": "lamb", "options": {"max_grad_norm": 0.1}})",
                      R"({"rule": "prodigy"})"));

TEST(CudaGraphsOfSteps, AlternateWithOtherSteps) {
  const c10::StreamGuard use(side_stream());
  Twins twins(R"({"rule": "adamw"})");
  twins.step(1);
  Graph graph([&] { twins.captured->step(); });
  twins.step(2);
  twins.replay(graph, 3);
  twins.step(4);
  twins.replay(graph, 5);
  twins.expect_equal();
  EXPECT_EQ(twins.steps(), 5);
}

TEST(CudaGraphsOfSteps, MayBeCapturedAgainAfterTheirTablesWereFreed) {
  const c10::StreamGuard use(side_stream());
  Twins twins(R"({"rule": "prodigy"})");
  for (const int number : {1, 4, 7}) {
    twins.captured->capturable();
    twins.step(number);
    Graph graph([&] { twins.captured->step(); });
    twins.replay(graph, number + 1);
    twins.captured->capturable(false);
    twins.step(number + 2);
  }
  twins.expect_equal();
  EXPECT_EQ(twins.steps(), 9);
}

TEST(CudaGraphsOfSteps, ReadLearningRateAndFoundInfInEachReplay) {
  const c10::StreamGuard use(side_stream());
  Twins twins(R"({"rule": "adamw"})");
  const auto lr = torch::full({}, 0.5, kGpu), found = torch::zeros({}, kGpu);
  twins.captured->set_lr(lr);
  twins.captured->set_found_inf(found);
  twins.live->set_lr(lr);
  twins.step(1);
  Graph graph([&] { twins.captured->step(); });
  lr.fill_(0.125);
  twins.replay(graph, 2);
  twins.expect_equal();
  found.fill_(1);
  graph.replay();
  found.zero_();
  twins.expect_equal();
  twins.replay(graph, 3);
  twins.expect_equal();
  EXPECT_EQ(twins.steps(), 3);
}

TEST(CudaGraphsOfSteps, LeaveCheckpointsThatContinue) {
  const c10::StreamGuard use(side_stream());
  const char* const spec = R"({"rule": "adamw", "state": "int4", "min_quantized_size": 0})";
  Twins twins(spec);
  twins.step(1);
  Graph graph([&] { twins.captured->step(); });
  twins.replay(graph, 2);
  const Tensors parameters = to(twins.a, torch::kCPU);
  const auto resumed = Optimizer::from_spec(parameters, spec);
  copy_through_archive(*twins.captured, *resumed);
  twins.replay(graph, 3);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].mutable_grad() = twins.a[i].grad().cpu();
  resumed->step();
  expect_same_bits(twins.a, parameters);
}

TEST(CudaGraphsOfSteps, RefuseMatricesThatAreDecomposed) {
  const c10::StreamGuard use(side_stream());
  Twins twins(R"({"rule": "soap"})");
  twins.step(1);
  twins.step(2);
  EXPECT_HAS(argument_error([&] { Graph([&] { twins.captured->step(); }); }), "capture");
  twins.step(3);
  twins.expect_equal();
}

TEST(CudaGraphsOfSteps, RequireTheActiveParametersOfTheStepBefore) {
  const c10::StreamGuard use(side_stream());
  Twins twins(R"({"rule": "adamw"})");
  twins.step(1);
  twins.a[1].mutable_grad().reset();
  EXPECT_THROW(Graph([&] { twins.captured->step(); }), std::exception);
}

}  // namespace
}  // namespace jitstep::tests
