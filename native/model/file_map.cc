#include "native/model/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "native/base/error.h"

namespace openclaw {

FileMap::FileMap(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  OC_CHECK(fd >= 0, Code::E_FILE, "%s: could not be opened: %s", path.c_str(), strerror(errno));
  struct stat info;
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
  void* at = regular ? mmap(nullptr, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  const int why = errno;
  close(fd);
  OC_CHECK(regular, Code::E_FILE, "%s: expected a file with content", path.c_str());
  OC_CHECK(at != MAP_FAILED, Code::E_FILE, "%s: could not be mapped: %s", path.c_str(), strerror(why));
  data_ = (const uint8_t*)at;
  size_ = (uint64_t)info.st_size;
}

FileMap::~FileMap() {
  if (data_) munmap(const_cast<uint8_t*>(data_), (size_t)size_);
}

}  // namespace openclaw
