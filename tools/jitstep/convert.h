// jitstep convert, which is another program's work.
#pragma once

namespace CLI {
class App;
}

namespace jitstep::tool {

/// For the list of subcommands alone: its words are that program's.
void add_convert_command(CLI::App& app);

/// Becomes that program, with the arguments from `convert` on. An Error if it cannot be started.
[[noreturn]] void hand_over_convert(char** arguments);

}  // namespace jitstep::tool
