#include "jit/manifest/manifest_names.h"

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jit/manifest/parameter_sizes.h"

namespace jitstep::jit {

void refuse_in_archives(const std::string& name, const Location& location) {
  if (const auto problem = archive_problem(name); !problem.empty())
    location.fail("`" + name + "` " + problem + ". Rename it.");
}

void refuse_entries(const std::string& own_name, const std::string& torch_name,
                    const Location& location) {
  for (const std::string& name : {own_name, torch_name})
    if (name == "step") location.fail("`step` is the step count of every state. Rename the state.");
  for (const std::string_view entry : {"dtype", "sizes", "strides"})
    if (torch_name == entry)
      location.fail(str_cat("`", entry,
                            "` is an entry of every state in Python. Rename the state, or give it ",
                            "another name there with the note `torch: NAME`."));
}

std::string unknown_name(const std::string& name, const Symbols& symbols) {
  const auto known = symbols.find(name);
  if (known != symbols.end() && known->second.type == Symbol::Type::no_flag)
    return str_cat("`", name,
                   "` is not a flag, and only flags can decide this. Declare a flag with ",
                   "the note `lifted: CONDITION`, and name it here.");
  if (known != symbols.end())
    return str_cat("`", name, "` is declared below the condition. Declare it above.");
  if (size_symbols().contains(name))
    return str_cat("only `lifted:` and `refuse:` of a rule can read the size `", name,
                   "`. Name a flag with `lifted:` here.");
  std::vector<std::string> names;
  for (const auto& [one, symbol] : symbols)
    if (symbol.is_usable()) names.push_back(one);
  return str_cat("unknown name `", name, "`", did_you_mean(name, names),
                 ". Known names: ", names.empty() ? "none" : joined(names), ".");
}

}  // namespace jitstep::jit
