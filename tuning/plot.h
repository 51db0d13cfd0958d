// Plots of measurements on a self-contained HTML page, without network access and scripts.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace jitstep::tuning {

/// A row of a plot: a dot with a line for its spread, or a text instead.
struct PlotRow {
  std::string label;
  const char* kind = "trial";  // CSS class: trial, winner, second
  double value = 0, low = 0, high = 0;
  std::string title = {};    // tooltip of the dot
  std::string instead = {};  // the text; empty: draw the dot
};

/// Rows from top to bottom over one axis. Values beyond its ends are clamped.
struct Plot {
  double low = 0, high = 1;
  std::vector<std::pair<double, std::string>> ticks;
  std::vector<std::pair<double, const char*>> lines;  // vertical lines: value and CSS class
  std::vector<PlotRow> rows;
};

/// The plot as inline SVG.
std::string to_svg(const Plot& plot);

/// An HTML page with a heading. `introduction` and `body` are HTML, `title` is text.
std::string html_page(const std::string& title, const std::string& introduction,
                      const std::string& body);

/// Escapes a text for HTML.
std::string escaped(const std::string& text);

/// Throws an Error unless a page can be written to `path`. Call it before a long measurement.
void check_page_path(const std::string& path);
/// Writes the page. Throws an Error if that fails.
void write_page(const std::string& path, const std::string& page);

}  // namespace jitstep::tuning
