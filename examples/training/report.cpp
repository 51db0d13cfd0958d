#include "report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

namespace training {
namespace {

constexpr std::size_t kComparedSteps = 100;
constexpr std::size_t kTrainLossSteps = 100;
constexpr int kJsonSchema = 1;

// Training amplifies rounding errors. Two correct fp32 AdamW that round differently agree to 2e-7 for about 10 steps.
// Then they diverge, up to 2e-2 at step 100 (6 seeds, two cores of an AMD EPYC, 2026-11-21). For comparison, torch's
// fused and plain AdamW diverge to 1e-3, and fp32 and fp64 to 5e-3. So only the early bound detects wrong formulas: no
// weight decay gives 7e-5 there, eps 1e-7 gives 5e-4, and a learning rate that is 0.1 % too high gives 5e-4. The late
// bound is five times the observed difference, and detects later failures. Above the default learning rate, runs
// diverge faster (5e-2 at 1e-2), and kLossBound is not checked.
constexpr std::size_t kEarlySteps = 10;
constexpr double kEarlyLossBound = 5e-6;
constexpr double kLossBound = 1e-1;

template <class... Values>
std::string print(const char* format, Values... values) {
  char text[320];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

const Run* find(const std::vector<Run>& runs, OptimizerKind kind) {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.choice.kind == kind && run.choice.state == "fp32";
  });
  return found == runs.end() ? nullptr : &*found;
}

// The mean of the last steps: one batch's loss alone is mostly noise.
double train_loss(const Run& run) {
  const auto count = std::min(kTrainLossSteps, run.losses.size());
  const auto first = run.losses.end() - static_cast<std::ptrdiff_t>(count);
  return std::accumulate(first, run.losses.end(), 0.0) / static_cast<double>(count);
}

double bytes_per_parameter(const Run& run) {
  return static_cast<double>(run.state_bytes) / static_cast<double>(run.parameters);
}

double largest_difference(const Run& theirs, const Run& ours, std::size_t steps) {
  double largest = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double relative = std::abs(ours.losses[i] - theirs.losses[i]) / theirs.losses[i];
    if (std::isnan(relative)) return relative;
    largest = std::max(largest, relative);
  }
  return largest;
}

using Row = std::vector<std::string>;

const Row kTitles = {"optimizer", "lr",       "state B/param", "train loss", "test acc",
                     "ms/step",   "first ms", "compiled",      "from cache"};

Row to_row(const Run& run) {
  const KernelCounts& kernels = run.kernels;
  const bool ours = run.choice.kind != OptimizerKind::kTorchAdamW;
  const long long cached = kernels.from_disk + kernels.from_memory;
  return {run.choice.name,
          std::isnan(run.choice.lr) ? "default" : print("%g", run.choice.lr),
          print("%.2f", bytes_per_parameter(run)),
          print("%.4f", train_loss(run)),
          print("%.2f %%", 100 * run.test_accuracy),
          print("%.3f", run.step_ms),
          print("%.1f", run.first_step_ms),
          ours ? print("%lld", static_cast<long long>(kernels.compiled)) : "-",
          ours ? print("%lld", cached) : "-"};
}

std::vector<std::size_t> widths(const std::vector<Row>& rows) {
  std::vector<std::size_t> result(kTitles.size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = std::max(result[i], row[i].size());
  }
  return result;
}

// The first column is text and left-aligned. The others are numbers and right-aligned.
std::string to_line(const Row& row, const std::vector<std::size_t>& width) {
  std::string line = row[0] + std::string(width[0] - row[0].size(), ' ');
  for (std::size_t i = 1; i < row.size(); ++i) {
    line += "  " + std::string(width[i] - row[i].size(), ' ') + row[i];
  }
  return line + "\n";
}

nlohmann::ordered_json to_json(const Run& run) {
  nlohmann::ordered_json json;
  json["name"] = run.choice.name;
  if (!run.choice.spec.empty()) json["spec"] = nlohmann::json::parse(run.choice.spec);
  json["lr"] = run.choice.lr;
  json["parameters"] = run.parameters;
  json["state_bytes"] = run.state_bytes;
  json["state_bytes_per_parameter"] = bytes_per_parameter(run);
  json["train_loss"] = train_loss(run);
  json["test_loss"] = run.test_loss;
  json["test_accuracy"] = run.test_accuracy;
  json["step_ms"] = run.step_ms;
  json["first_step_ms"] = run.first_step_ms;
  json["seconds"] = run.seconds;
  json["kernels"] = {{"compiled", run.kernels.compiled},
                     {"from_disk", run.kernels.from_disk},
                     {"from_memory", run.kernels.from_memory},
                     {"compile_seconds", run.kernels.compile_seconds}};
  json["losses"] = run.losses;
  return json;
}

nlohmann::ordered_json to_json(const LossDifference& difference) {
  return {{"largest", difference.largest}, {"steps", difference.steps},
          {"bound", kLossBound},           {"early", difference.early},
          {"early_steps", kEarlySteps},    {"early_bound", kEarlyLossBound}};
}

}  // namespace

// A NaN is out of bounds, because all comparisons with it are false.
bool LossDifference::within_bounds() const {
  return early <= kEarlyLossBound && (lr > kAdamWLr || largest <= kLossBound);
}

std::optional<LossDifference> compare_losses(const std::vector<Run>& runs) {
  const Run* theirs = find(runs, OptimizerKind::kTorchAdamW);
  const Run* ours = find(runs, OptimizerKind::kAdamW);
  if (!theirs || !ours) return std::nullopt;
  const std::size_t steps = std::min(kComparedSteps, theirs->losses.size());
  return LossDifference{.early = largest_difference(*theirs, *ours, std::min(kEarlySteps, steps)),
                        .largest = largest_difference(*theirs, *ours, steps),
                        .steps = steps,
                        .lr = theirs->choice.lr};
}

std::string sentence(const LossDifference& difference) {
  std::string text = print(
      "Losses of torch's and jitstep's fp32 AdamW, largest relative difference over the first %zu "
      "steps: %.1e (bound %.0e),\nover the first %zu, before rounding is amplified: %.1e (bound "
      "%.0e).\n",
      difference.steps, difference.largest, kLossBound, std::min(kEarlySteps, difference.steps),
      difference.early, kEarlyLossBound);
  if (difference.lr > kAdamWLr) {
    text += print("The first bound does not apply above the learning rate %g.\n", kAdamWLr);
  }
  if (difference.within_bounds()) return text;
  return text +
         "FAILED: jitstep's AdamW with fp32 state differs from torch's. The difference of the "
         "losses exceeds its bound.\n";
}

std::string table(const std::vector<Run>& runs) {
  std::vector<Row> rows = {kTitles};
  for (const Run& run : runs) rows.push_back(to_row(run));
  std::string text;
  for (const Row& row : rows) text += to_line(row, widths(rows));
  return text +
         "train loss: mean of the last 100 steps. ms/step: median time of opt.step() without the "
         "first step,\nwhich compiles or loads kernels (column first ms).\n";
}

void prepare_out(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || access(folder.c_str(), W_OK) != 0) {
    throw std::runtime_error("--out: cannot write to the folder " + folder.string() +
                             (error ? " (" + error.message() + ")" : "") + ". Use another one.");
  }
}

std::filesystem::path write_json(const Flags& flags, const Problem& problem,
                                 const std::vector<Run>& runs,
                                 const std::optional<LossDifference>& difference) {
  nlohmann::ordered_json json;
  json["schema"] = kJsonSchema;
  json["settings"] = {{"device", flags.device},
                      {"threads", flags.threads},
                      {"seed", flags.seed},
                      {"batch", flags.batch},
                      {"dtype", flags.dtype}};
  json["settings"].update(problem.settings);
  if (difference) json["loss_difference"] = to_json(*difference);
  json["runs"] = nlohmann::ordered_json::array();
  for (const Run& run : runs) json["runs"].push_back(to_json(run));
  const std::filesystem::path path = flags.out / (problem.program + ".json");
  std::ofstream file(path);
  file << json.dump(1) << "\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string() + ". Is the disk full?");
  return path;
}

}  // namespace training
