#include "jit/manifest/codec_options.h"

#include "jit/base/closest.h"
#include "jit/base/problem.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Why a codec's number cannot take its value from the rule's number `name`.
Problem following_problem(const Option& number, const std::string& name, const Manifest& rule) {
  const Option* const followed = rule.find(name);
  if (followed == nullptr || followed->type != Option::Type::number)
    return str_cat(number.name, " expects a number, or the name of a number of ", rule.name,
                   ". It has no number \"", name, "\".");
  if (number.constraint.covers(followed->constraint)) return {};
  return str_cat(number.name, " must be ", to_string(number.constraint), ", but ", rule.name, "'s ",
                 name, " can have other values: it must be ", to_string(followed->constraint));
}

Problem problem(const Manifest& codec, const Option& option, const Value& value,
                const Manifest* rule) {
  if (codec.has_number(option.name) && value.is_choice())
    return rule == nullptr ? Problem() : following_problem(option, value.choice(), *rule);
  if (const Problem type = option.type_problem(value)) return str_cat(option.name, " ", *type);
  return option.range_problem(value);
}

}  // namespace

NamedValues codec_options(const Manifest& codec, const NamedValues& given, const Manifest* rule) {
  NamedValues values;
  for (const auto* options : {&codec.hyper, &codec.flags})
    for (const Option& option : *options) values[option.name] = option.initial;
  const NamedValues none;
  for (const NamedValues* some :
       {rule == nullptr ? &none : &rule->codec_options(codec.name), &given})
    for (const auto& [name, value] : *some) {
      const Option* const option = codec.find(name);
      if (option == nullptr)
        throw Error(str_cat(codec.name, " has no option \"", name, "\"",
                            did_you_mean(name, codec.option_names()),
                            ". Options: ", values.empty() ? "none" : joined(codec.option_names())));
      if (const Problem wrong = problem(codec, *option, value, rule))
        throw Error(str_cat(codec.name, ": ", *wrong));
      values[name] = value;
    }
  return values;
}

}  // namespace jitstep::jit
