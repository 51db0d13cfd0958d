#include "help_format.h"

#include <jit/base/text.h>

namespace jitstep::tool {
namespace {

constexpr std::size_t kColumn = 28;

bool repeats(const CLI::Option& option) {
  return option.get_expected_max() == CLI::detail::expected_max_vector_size;
}

// CLI11 formats a list as "[a,b]".
std::string default_of(const CLI::Option& option) {
  std::string value = option.get_default_str();
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  return value;
}

}  // namespace

std::string value_name(const CLI::Option& option) {
  if (option.get_type_size() == 0 || option.get_items_expected_max() == 0) return "";
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(':'));  // CLI11 appends the names of checks after a colon
}

std::string described(const CLI::Option& option) {
  const std::string value = default_of(option);
  return option.get_description() + (value.empty() ? "" : " (default: " + value + ")");
}

HelpFormat::HelpFormat() {
  column_width(kColumn);
  label("Positionals", "Arguments");
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string name) const {
  std::string line = "Usage: " + name;
  const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) line += " COMMAND";
  for (const CLI::Option* one :
       app->get_options([](const auto* o) { return o->get_positional(); })) {
    const std::string shown = one->get_name(true) + (repeats(*one) ? "..." : "");
    line += one->get_required() ? " " + shown : " [" + shown + "]";
  }
  return line + " [OPTIONS]\n";
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  const std::string value = option->get_positional() ? "" : value_name(*option);
  return value.empty() ? "" : " " + value;
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return described(*option);
}

}  // namespace jitstep::tool
