# Runs a program and writes its output to a new file in a tree, with holes instead of zeros. Arguments: the tree, the
# file's path in it, its size, then the program. The times of the file's directory do not change.
#
# System calls: openat2 (safe in a guest's tree), statx and utimensat, whose times have nanoseconds. Node rounds times.
use strict;
use warnings;
use Fcntl qw(:DEFAULT);
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($tree, $path, $size, @program) = @ARGV;
my ($block, $at_once) = (4096, 1 << 20);
my $zeros = "\0" x $block;
my ($above, $name) = $path =~ m{^(?:(.*)/)?([^/]+)\z}s or die "$path: not a valid path of a file\n";
my $directory = $above // '.';
my $opened = open_beneath(open_top($tree), $directory, O_RDONLY | O_DIRECTORY) // die "$directory: $!\n";
my $fd = fileno $opened;
my ($stat, $empty) = ("\0" x 256, '');
call('statx', $fd, $empty, 0x1000, 0x7ff, $stat) == 0 or die "$directory: $!\n"; # AT_EMPTY_PATH
my $times = pack('q4', unpack('x64 q L', $stat), unpack('x112 q L', $stat)); # access time, modification time
sysopen(my $file, "/proc/self/fd/$fd/$name", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600) or die "$path: $!\n";

call('utimensat', $fd, 0, $times, 0) == 0 or die "$directory: $!\n";

my $child = open(my $output, '-|') // die "fork: $!\n";
if (!$child) {
  exec { $program[0] } @program;
  die "$program[0]: $!\n";
}
binmode $output;

sub write_at {
  my ($offset, $data) = @_;
  return if $data eq '';
  sysseek($file, $offset, 0) or die "$path: $!\n";
  (syswrite($file, $data) // -1) == length $data or die "$path: $!\n";
}

sub write_sparse {
  my ($offset, $data) = @_;
  my ($start, $at) = (0, 0);
  for (; $at < length $data; $at += $block) {
    next if substr($data, $at, $block) ne $zeros;
    write_at($offset + $start, substr($data, $start, $at - $start));
    $start = $at + $block;
  }
  write_at($offset + $start, substr($data, $start)) if $start < length $data;
}

my ($offset, $data) = (0, '');
while (1) {
  my $count = sysread($output, $data, $at_once - length $data, length $data) // die "read: $!\n";
  next if $count > 0 && length $data < $at_once;
  die "$path: the data is longer than $size bytes\n" if $offset + length $data > $size;
  write_sparse($offset, $data);
  $offset += length $data;
  $data = '';
  last if $count == 0;
}
close $output;
exit($? >> 8 || 1) if $?;
die "$path: the data has $offset bytes, not $size\n" if $offset != $size;
truncate($file, $size) && close $file or die "$path: $!\n";
