#include "network.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>

#include "../training/training.h"
#include "text.h"

namespace char_transformer {
namespace {

using training::widened;

constexpr std::int64_t kContext = 64;  // maximum number of characters before a prediction
constexpr std::int64_t kWidth = 128, kHeads = 4, kLayers = 2;
constexpr std::int64_t kTestWindows = 1024, kTestBatch = 64;

torch::Tensor transformed(const torch::Tensor& x, const torch::nn::Linear& layer) {
  return torch::linear(x, widened(layer->weight), widened(layer->bias));
}

torch::Tensor normalized(const torch::Tensor& x, const torch::nn::LayerNorm& layer) {
  return torch::layer_norm(x, {kWidth}, widened(layer->weight), widened(layer->bias));
}

torch::nn::LayerNorm normalization() {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}));
}

// Causal attention, then two fully connected layers, each with a residual connection.
struct Block : torch::nn::Module {
  Block()
      : before_attention(register_module("before_attention", normalization())),
        before_full(register_module("before_full", normalization())),
        query_key_value(register_module("query_key_value", torch::nn::Linear(kWidth, 3 * kWidth))),
        attended(register_module("attended", torch::nn::Linear(kWidth, kWidth))),
        full1(register_module("full1", torch::nn::Linear(kWidth, 4 * kWidth))),
        full2(register_module("full2", torch::nn::Linear(4 * kWidth, kWidth))) {}

  torch::Tensor attention(const torch::Tensor& x) const {
    const auto heads = transformed(x, query_key_value)
                           .view({x.size(0), x.size(1), 3, kHeads, kWidth / kHeads})
                           .permute({2, 0, 3, 1, 4});
    const auto y = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, 0.0,
                                                    /*is_causal=*/true);
    return transformed(y.transpose(1, 2).reshape(x.sizes()), attended);
  }

  torch::Tensor forward(torch::Tensor x) const {
    x = x + attention(normalized(x, before_attention));
    return x + transformed(torch::gelu(transformed(normalized(x, before_full), full1)), full2);
  }

  torch::nn::LayerNorm before_attention, before_full;
  torch::nn::Linear query_key_value, attended, full1, full2;
};

struct Network : torch::nn::Module {
  explicit Network(std::int64_t characters)
      : embedding(register_module("embedding", torch::nn::Embedding(characters, kWidth))),
        positions(register_module("positions", torch::nn::Embedding(kContext, kWidth))),
        last(register_module("last", normalization())),
        scores(register_module("scores", torch::nn::Linear(kWidth, characters))) {
    for (std::int64_t i = 0; i < kLayers; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    }
  }

  /// The scores of all characters at each position of the windows [batch, kContext]. The result is [batch * kContext,
  /// characters].
  torch::Tensor forward(const torch::Tensor& windows) const {
    auto x = torch::embedding(widened(embedding->weight), windows) + widened(positions->weight);
    for (const auto& block : blocks) x = block->forward(x);
    return transformed(normalized(x, last), scores).flatten(0, 1);
  }

  torch::nn::Embedding embedding, positions;
  torch::nn::LayerNorm last;
  torch::nn::Linear scores;
  std::vector<std::shared_ptr<Block>> blocks;
};

// All windows of kContext characters and the next one: a view of [size - kContext, kContext + 1].
torch::Tensor windows_of(const std::vector<std::uint8_t>& text, torch::Device device) {
  auto* characters = const_cast<std::uint8_t*>(text.data());  // `to` only reads and copies them
  const auto size = static_cast<std::int64_t>(text.size());
  return torch::from_blob(characters, {size}, torch::kUInt8)
      .to(device, torch::kInt64)
      .unfold(0, kContext + 1, 1);
}

struct Data {
  torch::Tensor train, test;  // windows
  std::int64_t characters;
};

Data load_data(const Flags& flags, torch::Device device) {
  const Text text = load_text(flags.data);
  const auto test = windows_of(text.test, device);
  const auto stride = std::max(std::int64_t{1}, test.size(0) / kTestWindows);
  return {windows_of(text.train, device), test.slice(0, 0, stride * kTestWindows, stride),
          text.characters};
}

std::shared_ptr<Network> make_network(const Flags& flags, std::int64_t characters,
                                      torch::Device device) {
  torch::manual_seed(flags.seed);
  auto network = std::make_shared<Network>(characters);
  network->to(device, training::parameter_dtype(flags));
  return network;
}

class CharTransformer : public training::Task {
 public:
  CharTransformer(const Flags& flags, const Data& data)
      : batch_(flags.batch),
        data_(data),
        network_(make_network(flags, data.characters, data.train.device())),
        generator_(at::make_generator<at::CPUGeneratorImpl>(flags.seed)) {}

  std::shared_ptr<torch::nn::Module> network() const override { return network_; }

  torch::Tensor loss(std::int64_t) override {
    const auto starts = torch::randint(data_.train.size(0), {batch_}, generator_, torch::kInt64);
    const auto windows = data_.train.index_select(0, starts.to(data_.train.device()));
    return torch::cross_entropy_loss(predict(windows), targets(windows));
  }

  training::Score test() override {
    const torch::NoGradGuard no_grad;
    double loss = 0;
    std::int64_t right = 0;
    for (const torch::Tensor& windows : data_.test.split(kTestBatch)) {
      const auto scores = predict(windows), wanted = targets(windows);
      loss += torch::cross_entropy_loss(scores, wanted, {}, at::Reduction::Sum).item<double>();
      right += scores.argmax(1).eq(wanted).sum().item<std::int64_t>();
    }
    const auto count = static_cast<double>(data_.test.size(0) * kContext);
    return {loss / count, static_cast<double>(right) / count};
  }

 private:
  torch::Tensor predict(const torch::Tensor& windows) const {
    return network_->forward(windows.slice(1, 0, kContext));
  }
  static torch::Tensor targets(const torch::Tensor& windows) {
    return windows.slice(1, 1).flatten();
  }

  std::int64_t batch_;
  Data data_;
  std::shared_ptr<Network> network_;
  at::Generator generator_;  // depends only on the seed, so every optimizer gets the same batches
};

}  // namespace

training::Problem make_problem(const Flags& flags, torch::Device device) {
  const Data data = load_data(flags, device);
  std::ostringstream what;
  what << "Character transformer: " << data.train.size(0) << " training windows, "
       << data.characters << " different characters; steps: " << flags.steps
       << ", windows per step: " << flags.batch << ", characters per window: " << kContext;
  return {.program = "char_transformer",
          .description = what.str(),
          .settings = {{"steps", flags.steps}},
          .steps = flags.steps,
          .fresh_task = [=] { return std::make_unique<CharTransformer>(flags, data); }};
}

}  // namespace char_transformer
