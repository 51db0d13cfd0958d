// The reference page of the command line, generated from the flags that the tool declares.
#include <jit/base/text.h>

#include <sstream>

#include "../jitstep/app.h"
#include "../jitstep/help_format.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::reference {
namespace {

using namespace jitstep::jit;
using namespace jitstep::tool;

std::vector<const CLI::App*> subcommands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

std::string flags_table(const CLI::App& command) {
  Rows arguments = {{"argument", "meaning"}}, flags = {{"flag", "meaning"}};
  for (const CLI::Option* one : command.get_options()) {
    if (one->get_positional()) {
      arguments.push_back({code(one->get_name(true)), described(*one)});
    } else if (one != command.get_help_ptr()) {
      const std::string value = value_name(*one);
      flags.push_back(
          {code(one->get_name(false, true) + (value.empty() ? "" : " " + value)), described(*one)});
    }
  }
  return table(arguments) + table(flags);
}

std::string block(const std::string& text) {
  return text.empty() ? "" : "```text\n" + text + "\n```\n\n";
}

std::string usage(const CLI::App& command, const std::string& name) {
  return HelpFormat().make_usage(&command, name).substr(std::string("Usage: ").size());
}

std::string section(const CLI::App& command, const std::string& parent, const std::string& level) {
  const std::string name = parent + " " + command.get_name();
  std::string out = str_cat(level, " ", name, "\n\n", command.get_description(), ".");
  if (!command.get_aliases().empty())
    out += str_cat(" Alias: ", joined(command.get_aliases(), ", ", code), ".");
  out += str_cat("\n\n```text\n", usage(command, name), "```\n\n", flags_table(command));
  for (const CLI::App* one : subcommands(command)) out += section(*one, name, level + "#");
  return out + block(command.get_footer());
}

std::string contents(const CLI::App& app) {
  Rows rows = {{"group", "command", "what it does"}};
  std::string group;
  for (const CLI::App* one : subcommands(app)) {
    const std::string& name = one->get_name();
    rows.push_back({one->get_group() == group ? "" : one->get_group(),
                    str_cat("[`jitstep ", name, "`](#jitstep-", name, ")"),
                    one->get_description()});
    group = one->get_group();
  }
  return table(rows);
}

}  // namespace

Page cli_page() {
  int status = 0;
  CLI::App app("", "jitstep");
  build_app(app, status);
  std::string out =
      str_cat(kGenerated, "# Command line\n\n", contents(app), block(app.get_footer()),
              "With `--json`, a command prints one object with `\"schema\": 1`. An error is "
              "then an object on standard error:\n"
              "`{\"error\": {\"message\": \"...\", \"status\": 2}, \"schema\": 1}`.\n\n");
  for (const CLI::App* one : subcommands(app)) out += section(*one, "jitstep", "##");
  return {"reference/cli.md", out};
}

}  // namespace jitstep::reference
