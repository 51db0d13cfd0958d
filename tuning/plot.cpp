#include "tuning/plot.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "jit/base/text.h"
#include "jit/base/text_table.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

namespace fs = std::filesystem;
using jit::fixed;
using jit::str_cat;

constexpr const char* kStyle = R"(<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
h2 { font-size: 1.1em; margin: 2em 0 0.2em; }
p { margin: 0.2em 0; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #333; }
.axis { stroke: #bbb; } .default { stroke: #444; } .limit { stroke: #b5651d; stroke-dasharray: 5 4; }
.trial { stroke: #8aa; fill: #8aa; } .winner { stroke: #1a7f37; fill: #1a7f37; }
.second { stroke: #2563b0; fill: #2563b0; } .failed { fill: #a33; }
</style>)";

constexpr int kLeft = 300, kWidth = 560, kRow = 22;

std::string x_of(const Plot& plot, double value) {
  const double share = (std::clamp(value, plot.low, plot.high) - plot.low) / (plot.high - plot.low);
  return fixed(kLeft + kWidth * share, 1);
}

std::string line(const char* kind, const std::string& x1, int y1, const std::string& x2, int y2) {
  return str_cat("<line class=\"", kind, "\" x1=\"", x1, "\" y1=\"", y1, "\" x2=\"", x2, "\" y2=\"",
                 y2, "\"/>\n");
}

std::string row(const Plot& plot, const PlotRow& one, int y) {
  const std::string label =
      str_cat("<text x=\"0\" y=\"", y + 4, "\">", escaped(one.label), "</text>\n");
  if (!one.instead.empty())
    return str_cat(label, "<text class=\"failed\" x=\"", kLeft, "\" y=\"", y + 4, "\">",
                   escaped(one.instead), "</text>\n");
  return str_cat(label, line(one.kind, x_of(plot, one.low), y, x_of(plot, one.high), y),
                 "<circle class=\"", one.kind, "\" cx=\"", x_of(plot, one.value), "\" cy=\"", y,
                 "\" r=\"4\"><title>", escaped(one.title), "</title></circle>\n");
}

}  // namespace

std::string to_svg(const Plot& plot) {
  const int bottom = kRow * (static_cast<int>(plot.rows.size()) + 1);
  std::string out = str_cat("<svg viewBox=\"0 0 ", kLeft + kWidth + 40, " ", bottom + 30, "\">\n",
                            line("axis", str_cat(kLeft), bottom, str_cat(kLeft + kWidth), bottom));
  for (const auto& [value, label] : plot.ticks)
    out += str_cat("<text text-anchor=\"middle\" x=\"", x_of(plot, value), "\" y=\"", bottom + 18,
                   "\">", escaped(label), "</text>\n");
  for (const auto& [value, kind] : plot.lines)
    out += line(kind, x_of(plot, value), 4, x_of(plot, value), bottom);
  for (std::size_t i = 0; i < plot.rows.size(); ++i)
    out += row(plot, plot.rows[i], kRow * (static_cast<int>(i) + 1) - kRow / 3);
  return out + "</svg>\n";
}

std::string html_page(const std::string& title, const std::string& introduction,
                      const std::string& body) {
  return str_cat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
                 escaped(title), "</title>\n", kStyle, "</head><body>\n<h1>", escaped(title),
                 "</h1>\n<p>", introduction, "</p>\n", body, "</body></html>\n");
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
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

void check_page_path(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  const std::string file = fs::exists(path) ? path : folder.string();
  if (fs::is_directory(path) || !fs::is_directory(folder) || ::access(file.c_str(), W_OK) != 0)
    throw jit::Error(str_cat("cannot write ", path,
                             ". Name a file in an existing folder that you may write to."));
}

void write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  if (!file.flush())
    throw jit::Error(
        str_cat("cannot write ", path, ". Check its permissions and the space on its disk."));
}

}  // namespace jitstep::tuning
