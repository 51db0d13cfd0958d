// The samples of README.md and docs/. Each region between two [docs:...] marks is a sample of one page, and a test
// compares the two. This program shows that they compile and run.
#include <jitstep/jitstep.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Batches = std::vector<std::pair<torch::Tensor, torch::Tensor>>;

torch::nn::Sequential make_model() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(16, 64), torch::nn::Tanh(),
                               torch::nn::Linear(64, 64), torch::nn::Tanh(),
                               torch::nn::Linear(64, 1));
}

Batches make_batches() {
  Batches batches;
  for (int i = 0; i < 3; ++i) {
    const auto x = torch::randn({8, 16});
    batches.emplace_back(x, x.sum(1, true));
  }
  return batches;
}

// One step, so that the sample above it is executed to the end.
void take_step(jitstep::Optimizer& opt, torch::nn::Sequential& model) {
  const auto batches = make_batches();
  opt.zero_grad();
  torch::mse_loss(model->forward(batches[0].first), batches[0].second).backward();
  opt.step();
}

void own_files() {
  auto model = make_model();
  {
    // [docs:load-signum]
    jitstep::load_rule("signum.cuh");
    jitstep::Optimizer opt("signum", model->parameters(),
                           jitstep::GenericOptions(1e-3).state("int4"));
    // [docs:load-signum end]
    take_step(opt, model);
  }
  {
    // [docs:load-yogi]
    jitstep::load_rule("yogi.cuh");
    jitstep::Optimizer opt("yogi", model->parameters(),
                           jitstep::GenericOptions(0.01).state("int8"));
    // [docs:load-yogi end]
    take_step(opt, model);
  }
  {
    // [docs:load-linear8]
    jitstep::load_codec("linear8.cuh");
    jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-3).state("linear8"));
    // [docs:load-linear8 end]
    take_step(opt, model);
  }
}

void host_transforms() {
  // [docs:host-transforms]
  jitstep::register_host_transform(
      "my_sign", [](const torch::Tensor& x, const jitstep::jit::OptionValues& options) {
        return x.sign() * options.get("lr").number();
      });
  jitstep::register_parameter_transform("my_warmup", [](const jitstep::TransformCall& call) {
    call.values.mul_(std::min(1.0, static_cast<double>(call.step()) / 100));
  });
  // [docs:host-transforms end]
}

void options() {
  // [docs:formats]
  auto all_slots = jitstep::AdamWOptions(1e-3).state("int8");
  auto one_slot = jitstep::AdamWOptions(1e-3).state("exp_avg", "int8");
  auto with_options = jitstep::AdamWOptions(1e-3).state(R"({"codec": "int8", "block": 128})");
  // [docs:formats end]
  // [docs:clipping]
  auto options = jitstep::AdamWOptions(1e-3).max_grad_norm(1.0);
  // [docs:clipping end]
  for (const auto& chosen : {all_slots, one_slot, with_options, options}) {
    auto model = make_model();
    jitstep::AdamW opt(model->parameters(), chosen);
    take_step(opt, model);
  }
}

void groups() {
  auto model = make_model();
  {
    const std::vector<torch::Tensor> backbone = model[0]->parameters(),
                                     head = model[4]->parameters();
    // [docs:groups]
    std::vector<jitstep::OptimizerParamGroup> groups;
    groups.emplace_back(backbone, std::make_unique<jitstep::AdamWOptions>(1e-4));
    groups.emplace_back(head, std::make_unique<jitstep::AdamWOptions>(1e-3));
    static_cast<jitstep::AdamWOptions&>(groups[1].options()).state("int8");
    jitstep::AdamW opt(groups, jitstep::AdamWOptions(1e-3));
    // [docs:groups end]
    take_step(opt, model);
  }
  {
    // [docs:by-name]
    jitstep::Optimizer opt("lion", model->parameters(),
                           jitstep::GenericOptions(1e-4).state("int8"));
    auto other =
        jitstep::Optimizer::from_spec(model->parameters(), R"({"rule": "lion", "state": "int8"})");
    // [docs:by-name end]
    take_step(opt, model);
    take_step(*other, model);
  }
  {
    // [docs:decay-groups]
    auto options = jitstep::LAMBOptions(5e-3).weight_decay(0.01);
    jitstep::LAMB opt(jitstep::decay_groups(*model, options));
    // [docs:decay-groups end]
    take_step(opt, model);
  }
  {
    // [docs:muon]
    auto matrices = jitstep::MuonOptions(0.02).state("int8");
    jitstep::Muon opt(*model, matrices, jitstep::AdamWOptions(3e-4));
    // [docs:muon end]
    take_step(opt, model);
  }
}

void gradients() {
  {
    auto model = make_model();
    jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-3));
    const std::vector<Batches> batches = {make_batches(), make_batches()};
    // [docs:accumulation]
    jitstep::GradAccumulator sums(model->parameters());  // bfloat16 sums, rounded stochastically
    for (const auto& micro_batches : batches) {
      for (const auto& [x, y] : micro_batches) torch::mse_loss(model->forward(x), y).backward();
      sums.assign_gradients();  // p.grad() is the sum
      opt.step();
      opt.zero_grad();
    }
    // [docs:accumulation end]
  }
  auto model = make_model();
  jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-3));
  const auto batches = make_batches();
  // [docs:step-in-backward]
  opt.step_in_backward();  // once
  for (const auto& [x, y] : batches) {
    torch::mse_loss(model->forward(x), y)
        .backward();  // steps each parameter and frees its gradient
  }
  // [docs:step-in-backward end]
}

void loss_scaling() {
  auto model = make_model();
  jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-3));
  const auto batches = make_batches();
  // [docs:grad-scaler]
  jitstep::GradScaler scaler;
  opt.zero_grad_in_step();  // optional: the step clears the gradients it has read
  for (const auto& [x, y] : batches) {
    scaler.scale(torch::mse_loss(model->forward(x), y)).backward();
    scaler.step(opt);  // divides by the scale and clips in the step's own passes
    scaler.update();
  }
  // [docs:grad-scaler end]
}

void schedule() {
  auto model = make_model();
  jitstep::LAMB opt(model->parameters(), jitstep::LAMBOptions(5e-3));
  const auto batches = make_batches();
  // [docs:schedule]
  jitstep::PolynomialLR schedule(opt, {.steps = 15625, .warmup_steps = 3125});
  for (const auto& [x, y] : batches) {
    opt.zero_grad();
    torch::mse_loss(model->forward(x), y).backward();
    opt.step();
    schedule.step();
  }
  // [docs:schedule end]
}

// Runs a captured step as at::cuda::CUDAGraph does, on the CPU.
template <class Step>
struct HostGraph {
  Step step;
  void capture_begin() {}
  void capture_end() {}
  void replay() { step(); }
};

void graphs() {
  auto model = make_model();
  jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-3));
  const auto lr = torch::full({1}, 1e-3);
  auto input = torch::randn({8, 16});
  const std::vector<torch::Tensor> batches = {torch::randn({8, 16}), torch::randn({8, 16})};
  const auto step = [&] {
    opt.zero_grad();
    model->forward(input).square().mean().backward();
    opt.step();
  };
  HostGraph<decltype(step)> graph{step};
  // [docs:cuda-graph]
  opt.capturable();       // the device counts the steps
  opt.set_lr(lr);         // a tensor, if the learning rate changes between replays
  step();                 // once before the capture: creates state, kernels and tables
  graph.capture_begin();  // graph is an at::cuda::CUDAGraph
  step();                 // forward, backward, opt.step()
  graph.capture_end();
  for (const auto& batch : batches) {
    input.copy_(batch);
    graph.replay();  // each replay is a step
  }
  // [docs:cuda-graph end]
}

void state_in_host_memory() {
  auto model = make_model();
  // [docs:offload]
  jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-4).max_grad_norm(1.0));
  opt.offload(jitstep::OffloadOptions().in_backward(true));
  // [docs:offload end]
  take_step(opt, model);
}

void reports_and_checkpoints() {
  auto model = make_model();
  jitstep::AdamW opt(model->parameters(), jitstep::AdamWOptions(1e-3).state("int8"));
  take_step(opt, model);
  // [docs:memory-report]
  std::cout << opt.memory_report().text();  // tables by format and by parameter
  std::cout << opt.memory_report().json();  // the same as one JSON object
  // [docs:memory-report end]
  // [docs:kernels]
  for (const auto& kernel : opt.kernels()) std::cout << kernel.text();
  // [docs:kernels end]
  // [docs:write-kernels]
  jitstep::write_kernels(opt.kernels(), "kernels.jsonl");
  // [docs:write-kernels end]
  // [docs:save]
  opt.save("opt.pt");  // or torch::save(opt, "opt.pt")
  opt.load("opt.pt");  // or torch::load(opt, "opt.pt")
  // [docs:save end]
  // [docs:save-parts]
  opt.save_parts("checkpoint");
  opt.load("checkpoint");
  // [docs:save-parts end]
  const torch::Tensor p = model->parameters()[2];
  // [docs:state]
  auto& state = static_cast<jitstep::AdamWParamState&>(*opt.state().at(p.unsafeGetTensorImpl()));
  torch::Tensor m = state.exp_avg();  // decoded into a new tensor, unless the format is plain
  state.exp_avg(m * 0.5);             // encoded
  // [docs:state end]
  take_step(opt, model);
}

// The samples name files without a folder, and write some.
void enter_scratch_folder() {
  std::string name = (fs::temp_directory_path() / "jitstep-samples-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot create " + name);
  for (const char* file : {"signum.cuh", "yogi.cuh", "linear8.cuh"}) {
    fs::copy_file(fs::path(EXAMPLES_FOLDER) / file, fs::path(name) / file);
  }
  fs::current_path(name);
}

void remove_folder(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    entry.is_directory() ? remove_folder(entry.path()) : void(fs::remove(entry.path()));
  fs::remove(folder);
}

}  // namespace

int main() {
  try {
    enter_scratch_folder();
    const fs::path scratch = fs::current_path();
    own_files();
    host_transforms();
    options();
    groups();
    gradients();
    loss_scaling();
    schedule();
    graphs();
    state_in_host_memory();
    reports_and_checkpoints();
    fs::current_path("/");
    remove_folder(scratch);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
