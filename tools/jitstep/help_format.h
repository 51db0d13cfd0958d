// The format of `--help`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace jitstep::tool {

/// The placeholder for a flag's value: "FILE", "N". Empty for a switch.
std::string value_name(const CLI::Option& option);

/// The description, followed by the default value.
std::string described(const CLI::Option& option);

/// Prints "--target TARGET  The target (default: sm_90)". CLI11's own format also prints types, checks and exclusions.
class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace jitstep::tool
