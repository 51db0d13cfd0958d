#include "tuning/report_page.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/base/text_table.h"

namespace jitstep::tuning {
namespace {

using jit::fixed;
using jit::text;
using jit::to_string;
using jit::Trial;

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>jitstep tune</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
h2 { font-size: 1.1em; margin: 2em 0 0.2em; }
p { margin: 0.2em 0; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #333; }
.axis { stroke: #bbb; } .default { stroke: #444; } .limit { stroke: #b5651d; stroke-dasharray: 5 4; }
.trial { stroke: #8aa; fill: #8aa; } .winner { stroke: #1a7f37; fill: #1a7f37; }
.second { stroke: #2563b0; fill: #2563b0; } .failed { fill: #a33; }
</style></head><body>
<h1>jitstep tune</h1>
<p>Each dot is the median of a variant's time over the default's in the same rounds, the line how far that median may be
off. Left of the solid line is faster than the default; the broken line is what a plain walk over the same bytes takes.</p>
)";

constexpr int kLeft = 300, kWidth = 560, kRow = 22;
constexpr double kLowest = 0.5, kHighest = 2;  // ratios; what reaches further is cut off there

std::string escaped(const std::string& words) {
  std::string out;
  for (const char c : words) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

// From ratios to places on the page.
struct Axis {
  double low, high;
  std::string at(double ratio) const {
    const double share = (std::clamp(ratio, low, high) - low) / (high - low);
    return fixed(kLeft + kWidth * share, 1);
  }
};

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

// The share of the default's time in which memory could move a step's bytes; 0: not known.
double limit_of(const jit::TuningRecord& record, double moved) {
  for (const Trial& trial : record.trials)
    if (trial.times.rounds > 0 && record.hardware.bandwidth > 0)
      return moved / record.hardware.bandwidth / trial.times.usual_seconds;
  return 0;
}

Axis axis_of(const std::vector<const Trial*>& trials, double limit) {
  Axis axis{0.9, 1.1};
  if (limit > 0.2) axis.low = std::min(axis.low, limit - 0.05);
  for (const Trial* const trial : trials) {
    if (trial->times.rounds == 0) continue;
    const double low = trial->times.ratio - trial->times.spread - 0.02;
    const double high = trial->times.ratio + trial->times.spread + 0.02;
    axis.low = std::min(axis.low, std::max(low, kLowest));
    axis.high = std::max(axis.high, std::min(high, kHighest));
  }
  return axis;
}

std::string line(const char* kind, const std::string& x1, int y1, const std::string& x2, int y2) {
  return text("<line class=\"", kind, "\" x1=\"", x1, "\" y1=\"", y1, "\" x2=\"", x2, "\" y2=\"",
              y2, "\"/>\n");
}

std::string row(const Trial& trial, const Axis& axis, const char* kind, int y) {
  std::string out =
      text("<text x=\"0\" y=\"", y + 4, "\">", escaped(to_string(trial.variant)), "</text>\n");
  if (trial.times.rounds == 0)
    return out + text("<text class=\"failed\" x=\"", kLeft, "\" y=\"", y + 4, "\">",
                      escaped(to_string(trial.status) + ": " + trial.detail), "</text>\n");
  const double ratio = trial.times.ratio, spread = trial.times.spread;
  out += line(kind, axis.at(ratio - spread), y, axis.at(ratio + spread), y);
  return out + text("<circle class=\"", kind, "\" cx=\"", axis.at(ratio), "\" cy=\"", y,
                    "\" r=\"4\"><title>", fixed(ratio, 3), " ± ", fixed(spread, 3), " in ",
                    trial.times.rounds, " rounds</title></circle>\n");
}

std::string plot(const jit::TuningRecord& record, double limit) {
  const auto trials = by_ratio(record.trials);
  const Axis axis = axis_of(trials, limit);
  const int bottom = kRow * (static_cast<int>(trials.size()) + 1);
  std::string out = text("<svg viewBox=\"0 0 ", kLeft + kWidth + 40, " ", bottom + 30, "\">\n",
                         line("axis", text(kLeft), bottom, text(kLeft + kWidth), bottom));
  for (const double tick : {axis.low, 1.0, axis.high})
    out += text("<text text-anchor=\"middle\" x=\"", axis.at(tick), "\" y=\"", bottom + 18, "\">",
                fixed(tick, 2), "</text>\n");
  out += line("default", axis.at(1), 4, axis.at(1), bottom);
  if (limit >= axis.low) out += line("limit", axis.at(limit), 4, axis.at(limit), bottom);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const bool won = record.outcome == jit::Outcome::won && trials[i]->variant == record.variant;
    const char* const kind = won ? "winner" : i < 2 ? "second" : "trial";
    out += row(*trials[i], axis, kind, kRow * (static_cast<int>(i) + 1) - kRow / 3);
  }
  return out + "</svg>\n";
}

std::string verdict(const jit::TuningRecord& record) {
  switch (record.outcome) {
    case jit::Outcome::won:
      return text(to_string(record.variant), " won: ", fixed(record.gain, 3),
                  " times as fast as the default (± ", fixed(record.spread, 3), ")");
    case jit::Outcome::usual:
      return "no variant is faster than the default, which stays";
    case jit::Outcome::unresolved:
      break;
  }
  return "unresolved: no variant was faster than the default by more than the noise, which stays";
}

std::string units_of(const jit::Hardware& hardware) {
  const char* const unit = hardware.target.is_cuda() ? "multiprocessor" : "processor";
  return text(hardware.units, " ", unit, hardware.units == 1 ? "" : "s");
}

std::string section(const Tuned& one, double moved) {
  const jit::TuningRecord& record = one.record;
  std::string out = text("<h2>", escaped(one.workload.name()), "</h2>\n");
  if (!one.problem.empty()) return out + text("<p>", escaped(one.problem), "</p>\n");
  const double limit = limit_of(record, moved);
  out += text("<p>", escaped(record.hardware.name), ", ", units_of(record.hardware), ", ",
              escaped(record.versions.compiler), ", ", record.date, ", strategy ",
              escaped(record.strategy), "</p>\n<p><b>", escaped(verdict(record)), "</b></p>\n");
  if (limit > 0)
    out += text("<p>The default reaches ", fixed(100 * limit, 0), " % of the ",
                fixed(record.hardware.bandwidth / 1e9, 1), " GB/s of a plain walk.</p>\n");
  return out + plot(record, limit);
}

}  // namespace

std::string report_page(const std::vector<Tuned>& tuned, const std::vector<double>& moved_bytes) {
  std::string out = kHead;
  for (std::size_t i = 0; i < tuned.size(); ++i) out += section(tuned[i], moved_bytes.at(i));
  return out + "</body></html>\n";
}

}  // namespace jitstep::tuning
