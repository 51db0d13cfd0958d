// Files of checkpoints: a save replaces a file completely or not at all, and keeps its name, links and permissions.
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <locale>
#include <regex>

#include "jit/base/file_handle.h"
#include "optim/state/same_state.h"

namespace jitstep::tests {
namespace {

// While this object exists, writes fail after 64 bytes, as on a full disk.
class SmallFiles {
 public:
  SmallFiles() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {64, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_;
};

TEST(ArchiveFile, AFileKeepsItsPermissionsAndALinkIsFollowed) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const std::string file = own_file("private.pt", ""), link = file + ".latest";
  std::filesystem::create_symlink(file, link);
  std::filesystem::permissions(file, std::filesystem::perms(0640));
  optimizer.save(link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0640));
  EXPECT_NO_THROW(optimizer.load(file));
}

TEST(ArchiveFile, AFileMayHaveTheLongestName) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const std::string file = own_file(std::string(255, 'n'), "");
  optimizer.save(file);
  EXPECT_NO_THROW(optimizer.load(file));
}

TEST(ArchiveFile, ALinkToAMissingFileIsFollowed) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const OwnFolder folder;
  const std::string file = folder.path + "/later.pt", link = folder.path + "/latest.pt",
                    first = folder.path + "/first.pt", loop = folder.path + "/loop.pt",
                    lost = folder.path + "/lost.pt";
  std::filesystem::create_symlink("later.pt", link);
  std::filesystem::create_symlink(link, first);
  optimizer.save(first);
  EXPECT_TRUE(std::filesystem::is_symlink(first) && std::filesystem::is_symlink(link));
  EXPECT_NO_THROW(optimizer.load(file));
  std::filesystem::create_symlink("loop.pt", loop);
  EXPECT_HAS(argument_error([&] { optimizer.save(loop); }), "leads back to itself");
  std::filesystem::create_symlink(folder.path + "/none/file.pt", lost);
  EXPECT_HAS(argument_error([&] { optimizer.save(lost); }),
             folder.path + "/none: there is no such folder");
}

// The names of the files that `work` creates in a folder.
std::vector<std::string> created_in(const std::string& folder, const std::function<void()>& work) {
  const jit::FileHandle watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  EXPECT_GE(::inotify_add_watch(watch.get(), folder.c_str(), IN_CREATE), 0);
  work();
  alignas(inotify_event) std::array<char, 16384> events{};
  const ssize_t size = ::read(watch.get(), events.data(), events.size());
  std::vector<std::string> names;
  for (ssize_t at = 0; at < size;) {
    const auto* const event = reinterpret_cast<const inotify_event*>(events.data() + at);
    names.emplace_back(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  return names;
}

struct GroupedDigits : std::numpunct<char> {
  char do_thousands_sep() const override { return ','; }
  std::string do_grouping() const override { return "\1"; }
};

// Where others may write, they could put a link to one of the user's files at a name that they can guess.
TEST(ArchiveFile, TheNameThatASaveWritesFirstIsRandomInEveryLocale) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  const OwnFolder folder;
  const std::string file = folder.path + "/optimizer.pt";
  const auto names = created_in(folder.path, [&] {
    optimizer.save(file);
    const std::locale before = std::locale::global(std::locale(std::locale(), new GroupedDigits));
    optimizer.save(file);
    std::locale::global(before);
  });
  ASSERT_EQ(names.size(), 2u);
  EXPECT_NE(names[0], names[1]);
  for (const std::string& name : names)
    EXPECT_TRUE(std::regex_match(name, std::regex("optimizer\\.pt\\.[0-9a-f]+\\.part"))) << name;
  EXPECT_NO_THROW(optimizer.load(file));
}

TEST(ArchiveFile, ANewFileHasTheUsersDefaultPermissions) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  const OwnFolder folder;
  const mode_t before = ::umask(0027);
  optimizer.save(folder.path + "/optimizer.pt");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder.path + "/optimizer.pt").permissions(),
            std::filesystem::perms(0640));
}

TEST(ArchiveFile, AnErrorGivesTheCauseIfAFileCannotBeOpened) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  const std::string file = own_file("optimizer.pt", "");
  optimizer.save(file);
  const std::string whole = text_of_file(file);
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none = {0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string message = argument_error([&] { optimizer.save(file); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_HAS(message, "Too many open files");
  EXPECT_HAS(message, "ulimit -n");
  EXPECT_EQ(text_of_file(file), whole);
}

TEST(ArchiveFile, AFileIsReplacedOnlyByACompleteOne) {
  const Tensors parameters = make_parameters(), twin = clones(parameters);
  AdamW optimizer(parameters), other(twin);
  train(optimizer, parameters, 1, 2);
  const std::string file = own_file("optimizer.pt", "");
  optimizer.save(file);
  torch::load(other, file);
  expect_same_state(optimizer, other);
  const std::string before = text_of_file(file);
  train(optimizer, parameters, 3, 3);
  {
    const SmallFiles full;
    EXPECT_HAS(argument_error([&] { optimizer.save(file); }), "cannot be saved to " + file);
  }
  EXPECT_EQ(text_of_file(file), before);
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(file).parent_path()))
    EXPECT_NE(entry.path().extension(), ".part") << "a partial file remains";
  EXPECT_HAS(argument_error([&] { optimizer.save(file + "/none"); }), "cannot be saved to ");
}

TEST(ArchiveFile, ASaveDoesNotReplaceASpecialFile) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  const OwnFolder folder;
  const std::string pipe = folder.path + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& name : {pipe, folder.path})
    EXPECT_HAS(argument_error([&] { optimizer.save(name); }), "not a regular file");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(ArchiveFile, AnEmptyNameIsRejected) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  EXPECT_HAS(argument_error([&] { optimizer.save(""); }), "empty");
  EXPECT_HAS(argument_error([&] { optimizer.save_parts(""); }), "empty");
  EXPECT_HAS(argument_error([&] { optimizer.load(""); }), "empty");
}

}  // namespace
}  // namespace jitstep::tests
