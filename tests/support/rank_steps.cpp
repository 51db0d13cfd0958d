#include "support/rank_steps.h"

#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::support {
namespace {

constexpr int kSteps = 4;
constexpr std::uint64_t kSeed = 7;
using Bytes = std::vector<std::byte>;

// The same number for an element whatever the number of ranks.
float value_at(std::uint64_t kind, std::size_t tensor, std::int64_t element) {
  std::uint64_t x = kind * 0x9e3779b97f4a7c15u + tensor * 0xbf58476d1ce4e5b9u +
                    static_cast<std::uint64_t>(element) * 0x94d049bb133111ebu;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(x >> 40) * 0x1p-23f - 1;
}

Bytes values_of(jit::Dtype dtype, std::uint64_t kind, std::size_t tensor, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count * jit::bytes_of(dtype)));
  for (std::int64_t e = 0; e < count; ++e) {
    const float value = value_at(kind, tensor, e) * 0.1f;
    const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    const bool narrow = dtype == jit::Dtype::bfloat16;
    const void* from = narrow ? static_cast<const void*>(&high) : &value;
    std::memcpy(&bytes[static_cast<std::size_t>(e * jit::bytes_of(dtype))], from, narrow ? 2 : 4);
  }
  return bytes;
}

// What all ranks know of a case.
struct World {
  World(const RankCase& given, int ranks, bool exchange)
      : c(given), exchanges(exchange), count(ranks), together(ranks), parts({}, 1) {
    std::vector<jit::NamedValues> all = c.groups;
    if (all.empty()) all.push_back(c.options);
    for (const jit::NamedValues& one : all) {
      groups.emplace_back(c.rule);
      for (const auto& [name, value] : one) groups.back().set(name, value);
      groups.back().validate();
    }
    jit::Formats formats;
    if (!c.state.empty()) formats.state = jit::CodecChoice{c.state};
    if (!c.weights.empty()) formats.weights = c.weights;
    std::vector<jit::PartitionedTensor> tensors;
    for (std::size_t i = 0; i < c.sizes.size(); ++i) {
      std::int64_t n = 1;
      for (const std::int64_t size : c.sizes[i]) n *= size;
      elements.push_back(n);
      plans.push_back(jit::resolve(groups[group_of(i)], formats,
                                   {.dtype = c.dtype,
                                    .dims = static_cast<int>(c.sizes[i].size()),
                                    .elements = n,
                                    .sizes = c.sizes[i]}));
      tensors.push_back({n, jit::part_grain(plans.back())});
    }
    parts = jit::Partition(tensors, ranks);
    doubles.resize(static_cast<std::size_t>(ranks));
    transformed.resize(c.sizes.size());
  }

  std::size_t group_of(std::size_t tensor) const { return tensor % groups.size(); }

  const RankCase& c;
  bool exchanges;
  int count;
  std::barrier<> together;
  std::vector<jit::OptionValues> groups;
  std::vector<std::int64_t> elements;
  std::vector<jit::Plan> plans;
  jit::Partition parts;
  std::vector<std::vector<std::vector<double>>> doubles;  // of each rank: its copies of all sums
  std::vector<std::vector<float>> transformed;            // whole tensors
  std::mutex mutex;
  RankOutcome outcome;
};

class Rank {
 public:
  Rank(World& world, int rank, const Device& device)
      : world_(world), rank_(rank), device_(device), shared_(shared_state()) {
    for (std::size_t i = 0; i < world_.elements.size(); ++i) add(i);
    step_ = std::make_unique<jit::Step>(device_.backend, batches_,
                                        plan(0).shared_state.empty() ? nullptr : &shared_);
    if (world_.count > 1)
      step_->set_exchange([this](const auto& sums) {
        if (world_.exchanges) exchange(sums);
      });
  }

  void run() {
    for (int t = 1; t <= kSteps; ++t) {
      std::vector<jit::StepInput> inputs;
      for (const std::size_t i : order_) {
        const bool inactive = static_cast<int>(i) == world_.c.inactive && t == 2;
        inputs.push_back({.g = inactive ? nullptr : gradient(i, t),
                          .hyper_index = world_.c.refuses ? static_cast<int>(i)
                                                          : static_cast<int>(world_.group_of(i)),
                          .inactive = inactive});
      }
      const bool transforms = !plan(0).rule().transforms.empty();
      step_->run(inputs, hyper_params(t),
                 transforms ? jit::HostTransform([this](const auto& all) { transform(all); })
                            : jit::HostTransform());
      kept_.clear();
    }
  }

  void collect() {
    const std::lock_guard lock(world_.mutex);
    for (std::size_t i = 0; i < order_.size(); ++i) collect(order_[i], tensors_[i]);
    if (!plan(0).shared_state.empty())
      same("shared state",
           read(shared_.buffers[parity()], 8 * static_cast<int>(plan(0).shared_state.size())));
  }

 private:
  const jit::Plan& plan(std::size_t i) const { return world_.plans[i]; }
  jit::SharedState shared_state() {
    jit::SharedState made = jit::make_shared_state(device_.backend, world_.groups[0]);
    if (world_.c.refuses) {
      offsets_ = to_device(Bytes(8 * (world_.elements.size() + 1)));
      found_ = to_device(Bytes(4));
      made.step_offset = static_cast<int64*>(offsets_.get()) + world_.elements.size();
    }
    return made;
  }

  std::shared_ptr<void> to_device(const Bytes& bytes) {
    auto memory = device_.backend.allocate(std::max<std::size_t>(bytes.size(), 1));
    if (!bytes.empty()) device_.backend.upload(memory.get(), bytes.data(), bytes.size());
    return memory;
  }
  Bytes read(const void* from, std::int64_t bytes) {
    Bytes here(static_cast<std::size_t>(bytes));
    if (bytes > 0) device_.download(here.data(), from, here.size());
    return here;
  }
  Bytes slice(const Bytes& whole, std::size_t tensor, std::int64_t width) const {
    const jit::Part part = world_.parts.part(rank_, tensor);
    return {whole.begin() + part.first * width, whole.begin() + part.last * width};
  }

  void add(std::size_t i) {
    const jit::Part part = world_.parts.part(rank_, i);
    const std::int64_t n = world_.elements[i];
    const bool all = part.count() == n;
    std::vector<std::int64_t> sizes = world_.c.sizes[i];
    if (!all)
      sizes = sizes.size() == 2 ? decltype(sizes){1, part.count()} : decltype(sizes){part.count()};
    const int width = jit::bytes_of(world_.c.dtype);
    states_.push_back(std::make_unique<jit::StateStorage>(
        device_.backend, plan(i), world_.groups[world_.group_of(i)], sizes));
    p_.push_back(to_device(slice(values_of(world_.c.dtype, 1, i, n), i, width)));
    jit::StepTensor tensor = states_.back()->tensor(p_.back().get(), static_cast<int>(i));
    if (world_.count > 1) tensor.whole = n, tensor.whole_sizes = world_.c.sizes[i];
    tensor.offset = part.first;
    std::size_t b = 0;
    while (b < batches_.size() && !(batches_[b].plan.spec == plan(i).spec)) ++b;
    if (b == batches_.size()) batches_.push_back({plan(i), {}, config_of(plan(i))});
    batches_[b].tensors.push_back(tensor);
    order_.clear();
    tensors_.clear();
    for (const jit::Batch& batch : batches_)
      for (const jit::StepTensor& one : batch.tensors) {
        order_.push_back(static_cast<std::size_t>(one.id));
        tensors_.push_back(one);
      }
  }

  std::optional<jit::KernelConfig> config_of(const jit::Plan& plan) const {
    if (world_.c.leaves_per_item.empty() || world_.count == 1) return std::nullopt;
    jit::KernelConfig config = jit::default_kernel_config(plan, device_.backend.target());
    config.leaves_per_item = world_.c.leaves_per_item.at(static_cast<std::size_t>(rank_));
    return config;
  }

  const void* gradient(std::size_t i, int t) {
    const int width = jit::bytes_of(world_.c.dtype);
    kept_.push_back(to_device(
        slice(values_of(world_.c.dtype, 100 + static_cast<std::uint64_t>(t), i, world_.elements[i]),
              i, width)));
    return kept_.back().get();
  }

  std::vector<HyperParams> hyper_params(int t) {
    std::vector<HyperParams> all;
    if (!world_.c.refuses) {
      for (const jit::OptionValues& group : world_.groups) all.push_back(group.at_step(t, kSeed));
      return all;
    }
    const float found = t == 2 ? 1 : 0;
    device_.backend.upload(found_.get(), &found, sizeof found);
    for (std::size_t i = 0; i < world_.elements.size(); ++i) {
      all.push_back(world_.groups[world_.group_of(i)].at_step(t, kSeed));
      all.back().found_inf = static_cast<const float*>(found_.get());
      all.back().step_offset = static_cast<int64*>(offsets_.get()) + i;
    }
    return all;
  }

  // Each rank publishes a copy of all sums, and takes the others' parts of theirs.
  void exchange(const std::vector<jit::PartialSums>& sums) {
    auto& mine = world_.doubles[static_cast<std::size_t>(rank_)];
    mine.clear();
    for (const jit::PartialSums& one : sums) {
      const Bytes bytes = read(one.sums, 8 * one.count * one.terms);
      mine.emplace_back(bytes.size() / 8);
      std::memcpy(mine.back().data(), bytes.data(), bytes.size());
    }
    world_.together.arrive_and_wait();
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const jit::PartialSums& one = sums[k];
      std::vector<double> all = mine[k];
      for (int rank = 0; rank < world_.count; ++rank) {
        const jit::Part part = world_.parts.part(rank, static_cast<std::size_t>(one.id));
        const auto& from = world_.doubles[static_cast<std::size_t>(rank)].at(k);
        for (std::int64_t i = part.first / one.elements * one.terms;
             i < (part.last + one.elements - 1) / one.elements * one.terms && part.count() > 0; ++i)
          all[static_cast<std::size_t>(i)] = from.at(static_cast<std::size_t>(i));
      }
      device_.backend.upload(one.sums, all.data(), all.size() * sizeof(double));
    }
    world_.together.arrive_and_wait();
  }

  // A function of a whole tensor: its values, divided by the largest of them.
  void transform(const std::vector<jit::TransformedTensor>& all) {
    const auto part_of = [&](const jit::TransformedTensor& one) {
      return world_.parts.part(rank_, order_[one.tensor]);
    };
    for (const jit::TransformedTensor& one : all) {
      auto& whole = world_.transformed[order_[one.tensor]];
      {
        const std::lock_guard lock(world_.mutex);
        whole.resize(static_cast<std::size_t>(world_.elements[order_[one.tensor]]));
      }
      const jit::Part part = part_of(one);
      const Bytes own = read(one.values, 4 * part.count());
      std::memcpy(whole.data() + part.first, own.data(), own.size());
    }
    world_.together.arrive_and_wait();
    for (const jit::TransformedTensor& one : all) {
      const auto& whole = world_.transformed[order_[one.tensor]];
      float most = 0;
      for (const float x : whole) most = std::max(most, std::abs(x));
      const jit::Part part = part_of(one);
      std::vector<float> own(whole.begin() + part.first, whole.begin() + part.last);
      for (float& x : own) x /= most;
      device_.backend.upload(one.values, own.data(), own.size() * sizeof(float));
    }
    world_.together.arrive_and_wait();
  }

  // The buffer of the last step. A skipped step does not count.
  std::size_t parity() const { return (kSteps - (world_.c.refuses ? 1 : 0)) & 1; }

  void append(const std::string& name, const void* from, std::int64_t bytes) {
    const Bytes own = read(from, bytes);
    auto& all = world_.outcome[name];
    all.insert(all.end(), own.begin(), own.end());
  }
  void same(const std::string& name, const Bytes& own) {
    const auto [found, fresh] = world_.outcome.try_emplace(name, own);
    if (!fresh && found->second != own)
      throw jit::Error(jit::str_cat("rank ", rank_, " has another ", name, " than rank 0."));
  }
  void collect(std::size_t i, const jit::StepTensor& tensor) {
    const std::int64_t n = world_.parts.part(rank_, i).count();
    const std::string name = jit::str_cat("tensor ", i, " ");
    append(name + "p", tensor.p, n * jit::bytes_of(world_.c.dtype));
    append(name + "residual", tensor.residual, n * plan(i).weights->residual_bytes());
    for (std::size_t slot = 0; slot < tensor.slots.size(); ++slot) {
      const auto layout = jit::slot_layout(plan(i), static_cast<int>(slot), n);
      append(jit::str_cat(name, "codes ", slot), tensor.slots[slot].codes, layout.codes);
      append(jit::str_cat(name, "meta ", slot), tensor.slots[slot].meta, layout.meta);
    }
    for (std::size_t f = 0; f < tensor.aux_state.size(); ++f) {
      const bool per_tensor = jit::part_grain(plan(i)) > 0;
      if (!per_tensor && n == 0) continue;  // only the rank with the tensor has its rows
      const auto layout =
          jit::state_layout(plan(i), tensor.shape, std::vector<double>(plan(i).aux_state.size()));
      const auto& field = layout.aux_state[f];
      same(jit::str_cat(name, "auxiliary state ", f),
           read(tensor.aux_state[f][parity()], field.entries * field.bytes));
    }
  }

  World& world_;
  int rank_;
  Device device_;
  std::shared_ptr<void> offsets_, found_;
  jit::SharedState shared_;
  std::vector<std::unique_ptr<jit::StateStorage>> states_;
  std::vector<std::shared_ptr<void>> p_, kept_;
  std::vector<jit::Batch> batches_;
  std::vector<std::size_t> order_;        // of the step's inputs: numbers of tensors
  std::vector<jit::StepTensor> tensors_;  // in this order
  std::unique_ptr<jit::Step> step_;
};

}  // namespace

RankOutcome step_ranks(const RankCase& c, const std::vector<Device>& ranks, bool exchanges) {
  World world(c, static_cast<int>(ranks.size()), exchanges);
  std::vector<std::unique_ptr<Rank>> all(ranks.size());
  std::exception_ptr error;
  const auto run = [&](int rank) {
    try {
      auto& own = all[static_cast<std::size_t>(rank)];
      own = std::make_unique<Rank>(world, rank, ranks[static_cast<std::size_t>(rank)]);
      own->run();
    } catch (...) {
      const std::lock_guard lock(world.mutex);
      if (!error) error = std::current_exception();
      world.together.arrive_and_drop();  // the others do not wait for it
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < world.count; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  for (const auto& rank : all) rank->collect();
  return world.outcome;
}

std::vector<std::string> differing(const RankOutcome& one, const RankOutcome& other) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : one) {
    const auto found = other.find(name);
    if (found == other.end() || found->second != bytes) names.push_back(name);
  }
  for (const auto& [name, bytes] : other)
    if (!one.contains(name)) names.push_back(name);
  return names;
}

std::vector<RankCase> rank_cases() {
  using jit::Dtype;
  using jit::Value;
  const std::vector<std::vector<std::int64_t>> matrices = {
      {300, 57}, {64, 128}, {33, 100}, {1, 5000}, {256, 70}};
  return {
      {"adamw", "adamw"},
      {"adamw_int8_stochastic", "adamw", "int8", "stochastic", Dtype::bfloat16},
      {"adamw_int4_clipped", "adamw", "int4", "", Dtype::float32, {{"max_grad_norm", Value(0.5)}}},
      {"adamw_fp8_expanded_split16", "adamw", "fp8_expanded", "split16", Dtype::bfloat16},
      {"lamb_int8_clipped", "lamb", "int8", "", Dtype::float32, {{"max_grad_norm", Value(0.5)}}},
      {.name = "lamb_with_an_inactive_tensor", .rule = "lamb", .inactive = 1},
      {.name = "lamb_that_skips_a_step", .rule = "lamb", .refuses = true},
      {"nvlamb", "nvlamb"},
      {"lamb16_fp8_norm", "lamb16", "fp8_norm"},
      {"novograd", "novograd"},
      {"amos", "amos", "", "", Dtype::float32, {{"momentum", Value(0.5)}}},
      {"asgd", "asgd"},
      {"prodigy_int8", "prodigy", "int8"},
      {.name = "prodigy_of_two_groups",
       .rule = "prodigy",
       .groups = {{{"lr", Value(0.5)}}, {{"weight_decay", Value(0.25)}}},
       .inactive = 0},
      {.name = "prodigy_that_skips_a_step", .rule = "prodigy", .refuses = true},
      {"dadapt_adam", "dadapt_adam"},
      {"schedulefree_adamw", "schedulefree_adamw"},
      {"adafactor_clipped", "adafactor", "", "", Dtype::float32, {{"max_grad_norm", Value(0.5)}}},
      {"adamw_int4_rank1", "adamw", "int4_rank1"},
      {"adamw_int4_double", "adamw", "int4_double"},
      {.name = "came", .rule = "came", .sizes = matrices},
      {.name = "muon_int8", .rule = "muon", .state = "int8", .sizes = matrices},
  };
}

}  // namespace jitstep::support
