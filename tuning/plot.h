// Plots of what was measured, on a page that needs nothing else: no network, no script.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace jitstep::tuning {

/// A dot with a line as far as it may be off, and what it is of; or words in their place.
struct PlotRow {
  std::string label;
  const char* kind = "trial";  // a class of the page's style: trial, winner, second
  double value = 0, low = 0, high = 0;
  std::string title = {};    // shown where a reader points at the dot
  std::string instead = {};  // empty: there is a dot
};

/// Rows from top to bottom over one axis; what lies beyond its ends is drawn at them.
struct Plot {
  double low = 0, high = 1;
  std::vector<std::pair<double, std::string>> ticks;
  std::vector<std::pair<double, const char*>>
      lines;  // from top to bottom, of classes: default, limit
  std::vector<PlotRow> rows;
};

/// As inline SVG.
std::string to_svg(const Plot& plot);

/// An HTML page with a head line; introduction and body are HTML.
std::string html_page(const std::string& title, const std::string& introduction,
                      const std::string& body);

/// A text as HTML shows it.
std::string escaped(const std::string& words);

/// An Error unless a page can be written there: to be asked before hours of measuring.
void check_page_path(const std::string& path);
/// Writes it. An Error if that fails.
void write_page(const std::string& path, const std::string& page);

}  // namespace jitstep::tuning
