#include "tuning/report_page.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/base/text_table.h"
#include "tuning/plot.h"

namespace jitstep::tuning {
namespace {

using jit::fixed;
using jit::str_cat;
using jit::to_string;
using jit::Trial;

constexpr const char* kIntroduction =
    "A dot is the median ratio of a configuration's time to the default's, in the same rounds. Its "
    "line is the spread of that median.\nA dot left of the solid line is faster than the default. "
    "The dashed line is the bandwidth baseline: a loop over the same bytes.";

constexpr double kLowest = 0.5, kHighest = 2;  // the axis ends at these ratios

std::vector<const Trial*> by_ratio(const std::vector<Trial>& trials) {
  std::vector<const Trial*> sorted;
  for (const Trial& trial : trials) sorted.push_back(&trial);
  const auto order = [](const Trial* trial) {
    return trial->times.rounds > 0 ? trial->times.ratio : 1e9;
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Trial* a, const Trial* b) { return order(a) < order(b); });
  return sorted;
}

// The bandwidth bound as a fraction of the default's time. 0: not known.
double limit_of(const jit::TuningRecord& record, double moved) {
  for (const Trial& trial : record.trials)
    if (trial.times.rounds > 0 && record.hardware.bandwidth > 0)
      return moved / record.hardware.bandwidth / trial.times.default_seconds;
  return 0;
}

// An axis that includes all measurements and the bandwidth bound.
Plot empty_plot(const std::vector<const Trial*>& trials, double limit) {
  Plot plot{.low = 0.9, .high = 1.1, .ticks = {}, .lines = {{1, "default"}}, .rows = {}};
  if (limit > 0.2) plot.low = std::min(plot.low, limit - 0.05);
  for (const Trial* const trial : trials) {
    if (trial->times.rounds == 0) continue;
    const double low = trial->times.ratio - trial->times.spread - 0.02;
    const double high = trial->times.ratio + trial->times.spread + 0.02;
    plot.low = std::min(plot.low, std::max(low, kLowest));
    plot.high = std::max(plot.high, std::min(high, kHighest));
  }
  for (const double tick : {plot.low, 1.0, plot.high})
    plot.ticks.emplace_back(tick, fixed(tick, 2));
  if (limit >= plot.low) plot.lines.emplace_back(limit, "limit");
  return plot;
}

PlotRow row(const Trial& trial, const char* kind) {
  PlotRow row{.label = to_string(trial.config), .kind = kind};
  if (trial.times.rounds == 0) {
    row.instead = to_string(trial.status) + ": " + trial.detail;
    return row;
  }
  const double ratio = trial.times.ratio, spread = trial.times.spread;
  row.value = ratio, row.low = ratio - spread, row.high = ratio + spread;
  row.title =
      str_cat(fixed(ratio, 3), " ± ", fixed(spread, 3), " in ", trial.times.rounds, " rounds");
  return row;
}

std::string plot(const jit::TuningRecord& record, double limit) {
  const auto trials = by_ratio(record.trials);
  Plot plot = empty_plot(trials, limit);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const bool won = record.outcome == jit::Outcome::won && trials[i]->config == record.config;
    plot.rows.push_back(row(*trials[i], won ? "winner" : i < 2 ? "second" : "trial"));
  }
  return to_svg(plot);
}

std::string verdict(const jit::TuningRecord& record) {
  switch (record.outcome) {
    case jit::Outcome::won:
      return str_cat(to_string(record.config), " won: ", fixed(record.gain, 3),
                     " times as fast as the default (± ", fixed(record.spread, 3), ")");
    case jit::Outcome::default_config:
      return "no configuration is faster than the default. The default stays";
    case jit::Outcome::unresolved:
      break;
  }
  return "unresolved: no configuration was faster than the default by more than the noise. The "
         "default stays";
}

std::string units_of(const jit::Hardware& hardware) {
  const char* const unit = hardware.target.is_cuda() ? "multiprocessor" : "processor";
  return str_cat(hardware.units, " ", unit, hardware.units == 1 ? "" : "s");
}

std::string section(const Tuned& one, double moved) {
  const jit::TuningRecord& record = one.record;
  std::string out = str_cat("<h2>", escaped(one.workload.name()), "</h2>\n");
  if (!one.problem.empty()) return out + str_cat("<p>", escaped(one.problem), "</p>\n");
  const double limit = limit_of(record, moved);
  out += str_cat("<p>", escaped(record.hardware.name), ", ", units_of(record.hardware), ", ",
                 escaped(record.versions.compiler), ", ", record.date, ", strategy ",
                 escaped(record.strategy), "</p>\n<p><b>", escaped(verdict(record)), "</b></p>\n");
  if (limit > 0)
    out += str_cat("<p>The default reaches ", fixed(100 * limit, 0), " % of the ",
                   fixed(record.hardware.bandwidth / 1e9, 1),
                   " GB/s of the bandwidth baseline.</p>\n");
  return out + plot(record, limit);
}

}  // namespace

std::string report_page(const std::vector<Tuned>& tuned, const std::vector<double>& moved_bytes) {
  std::string sections;
  for (std::size_t i = 0; i < tuned.size(); ++i) sections += section(tuned[i], moved_bytes.at(i));
  return html_page("jitstep tune", kIntroduction, sections);
}

}  // namespace jitstep::tuning
