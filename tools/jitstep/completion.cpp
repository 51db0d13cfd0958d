// jitstep completion: scripts for shells. They call the tool for candidates, so that they offer your own templates too.
#include "completion.h"

#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "command.h"
#include "flag_values.h"
#include "help_format.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using Strings = std::vector<std::string>;

// Without `compgen -W`, which executes `$(...)` in its candidates. Some candidates are names of files.
constexpr const char* kBash = R"sh(# bash completion of jitstep: source <(jitstep completion bash)
_jitstep() {
  local word=${COMP_WORDS[COMP_CWORD]} candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    if [[ $candidate == "$word"* ]]; then COMPREPLY+=("$candidate"); fi
  done < <(jitstep --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _jitstep jitstep
)sh";

constexpr const char* kZsh = R"sh(#compdef jitstep
# zsh completion of jitstep: source <(jitstep completion zsh)
_jitstep() {
  local -a candidates
  candidates=("${(@f)$(jitstep --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$candidates" ]]; then compadd -a candidates; else _files; fi
}
if [[ "${funcstack[1]}" = _jitstep ]]; then _jitstep "$@"; else compdef _jitstep jitstep; fi
)sh";

constexpr const char* kFish = R"sh(# fish completion of jitstep: jitstep completion fish | source
function __jitstep_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  jitstep --complete $words[2..-1] "$current" 2>/dev/null
end
complete -c jitstep -a '(__jitstep_complete)'
)sh";

constexpr const char* kFooter =
    "Enable completion in the current shell:\n"
    "  source <(jitstep completion bash)\n"
    "  source <(jitstep completion zsh)\n"
    "  jitstep completion fish | source";

const CLI::App* subcommand(const CLI::App& command, const std::string& name) {
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    if (one->check_name(name)) return one;
  return nullptr;
}

Strings names_of_subcommands(const CLI::App& command) {
  Strings names;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(one->get_name());
  return names;
}

Strings names_of_flags(const CLI::App& command) {
  Strings names;
  for (const CLI::Option* one : command.get_options())
    for (const std::string& name : one->get_lnames()) names.push_back("--" + name);
  return names;
}

// The values of a flag. In a list, completes the item after the last comma.
Strings values(const CLI::Option& flag, const std::string& word) {
  Strings all = values_of("--" + flag.get_lnames().front());
  const std::size_t comma = word.rfind(',');
  if (comma == word.npos || !value_name(flag).ends_with(",...")) return all;
  for (std::string& one : all) one = word.substr(0, comma + 1) + one;
  return all;
}

Strings values_of_argument(const CLI::App& command, std::size_t index) {
  const auto arguments =
      command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  return index < arguments.size() ? values_of(arguments[index]->get_name()) : Strings();
}

}  // namespace

std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const CLI::App* command = &app;
  const CLI::Option* waiting = nullptr;  // flag that the next word is the value of
  std::size_t arguments = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::exchange(waiting, nullptr) != nullptr) continue;
    if (word.starts_with('-')) {
      const CLI::Option* const flag = command->get_option_no_throw(word);
      if (flag != nullptr && !value_name(*flag).empty()) waiting = flag;
    } else if (const CLI::App* const next = subcommand(*command, word)) {
      command = next;
    } else {
      ++arguments;
    }
  }
  if (waiting != nullptr) return values(*waiting, words.back());
  if (words.back().starts_with('-')) return names_of_flags(*command);
  Strings all = names_of_subcommands(*command);
  return all.empty() ? values_of_argument(*command, arguments) : all;
}

void add_completion_command(CLI::App& app, int& status) {
  CLI::App* const command =
      add_command(app, kMaintain, "completion", "Print a completion script for a shell");
  command->footer(kFooter);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(one_of(values_of("shell")));
  command->callback([shell, &status] {
    static const std::map<std::string, const char*> kScripts = {
        {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
    std::cout << kScripts.at(*shell);
    status = kSuccess;
  });
}

}  // namespace jitstep::tool
