# Gives the files of a tree the layout that `read-layout` has written down, so that they take no more room than the
# files that it was read from. Arguments: the tree, a layout or an empty argument, the tree of an image or an empty one,
# then numbers of files of the layout that were fetched apart: with `only` before them, nothing but the first is changed.
#
# Every change is a request to deduplicate (FIDEDUPERANGE): the kernel compares before it exchanges extents, so a layout
# that is wrong changes no data. Times stay. Files that are equal in the image take their data from there. Without a
# layout, zeros become holes, and files of one size are compared.
use strict;
use warnings;
use Fcntl qw(:DEFAULT :mode);
use POSIX ();

my ($tree, $layout, $image, @apart) = @ARGV;
my ($openat2, $resolve, $path_only, $no_follow) = (437, 0x0f, 010000000, 0400000);
my ($nr_fgetxattr, $nr_fsetxattr, $nr_utimensat) = (193, 190, 280);
($nr_fgetxattr, $nr_fsetxattr, $nr_utimensat) = (10, 7, 88) if (POSIX::uname())[4] eq 'aarch64';
my ($dedupe, $get_flags, $set_flags, $no_cow) = (0xC0189436, 0x80086601, 0x40086602, 0x00800000);
my ($at_once, $copied_at_once, $window, $block, $smallest) = (16 << 20, 1 << 20, 256 << 20, 4096, 65536);
sysopen(my $top, $tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "$tree: $!\n";

# Opens a plain file beneath the tree without following links; undefined: none exists.
sub open_plain {
  my ($path) = @_;
  my $how = pack('Q3', $path_only | $no_follow | 02000000, 0, $resolve);
  my $fd = syscall($openat2, fileno $top, "$path", $how, length $how);
  return undef if $fd < 0;
  open(my $handle, '<&=', $fd) or return undef;
  return undef unless S_ISREG((stat $handle)[2]);
  open(my $plain, '<:raw', '/proc/self/fd/' . fileno $handle) or return undef;
  return $plain;
}

# @returns whether the whole range now shares the source's extents
sub share {
  my ($source, $from, $target, $to, $length) = @_;
  while ($length > 0) {
    my $part = $length < $at_once ? $length : $at_once;
    my $request = pack('Q2 S2 L q Q2 l L', $from, $part, 1, 0, 0, fileno $target, $to, 0, 0, 0);
    ioctl($source, $dedupe, $request) or return 0;
    my ($done, $status) = unpack('x24 x16 Q l', $request);
    return 0 if $status != 0 || $done == 0;
    $_ += $done for $from, $to;
    $length -= $done;
  }
  return 1;
}

sub flags_of { my $flags = pack('L', 0); ioctl($_[0], $get_flags, $flags) ? unpack('L', $flags) : 0 }

# An empty file without a name that can share data with `like`.
sub make_like {
  my ($like, $size, $is_compressed) = @_;
  sysopen(my $file, $tree, 020200000 | O_RDWR, 0600) or die "temporary file: $!\n"; # O_TMPFILE
  my $flags = pack('L', (flags_of($file) & ~$no_cow) | (flags_of($like) & $no_cow));
  ioctl($file, $set_flags, $flags);
  compress($file, $like) if $is_compressed;
  truncate($file, $size) or die "temporary file: $!\n";
  return $file;
}

sub compress {
  my ($file, $like) = @_;
  my ($name, $value) = ('btrfs.compression', "\0" x 16);
  my $length = syscall($nr_fgetxattr, fileno $like, $name, $value, length $value);
  $value = $length > 0 ? substr($value, 0, $length) : 'zstd';
  syscall($nr_fsetxattr, fileno $file, $name, $value, length $value, 0);
}

sub copy {
  my ($from, $to, $offset, $length) = @_;
  while ($length > 0) {
    sysseek($from, $offset, 0) && sysseek($to, $offset, 0) or die "seek: $!\n";
    my $count = sysread($from, my $data, $length < $copied_at_once ? $length : $copied_at_once);
    return 0 unless $count;
    (syswrite($to, $data) // -1) == $count or die "temporary file: $!\n";
    $offset += $count;
    $length -= $count;
  }
}

# All ranges of a file in order, including those with data of its own.
sub complete {
  my ($size, @ranges) = @_;
  my ($end, @all) = (0);
  for my $range (@ranges, ['', $size, 0]) {
    push @all, ['D', $end, $range->[1] - $end] if $range->[1] > $end;
    push @all, $range if $range->[0] ne '';
    $end = $range->[1] + $range->[2];
  }
  return @all;
}

# Moves a file's own data to new extents, since an old extent stays allocated as long as any part of it is in use. Works
# part by part, so that a large file does not need twice its space.
sub reshape {
  my ($path, $size, @ranges) = @_;
  my $file = open_plain($path) or return;
  return if (stat $file)[7] != $size;
  my @own = grep { $_->[0] ne 'S' } complete($size, @ranges);
  return unless @own;
  my $is_compressed = grep { $_->[0] eq 'C' } @own;
  while (my @part = take_window(\@own)) {
    my $new = make_like($file, $size, $is_compressed);
    copy($file, $new, @$_[1, 2]) for grep { $_->[0] ne 'H' } @part;
    share($new, $_->[1], $file, $_->[1], $_->[2]) for @part;
  }
}

# The next ranges, up to this amount of data.
sub take_window {
  my ($ranges) = @_;
  my ($left, @part) = ($window);
  while (@$ranges && $left > 0) {
    my ($kind, $offset, $length) = @{shift @$ranges};
    my $taken = $kind eq 'H' || $length <= $left ? $length : $left;
    unshift @$ranges, [$kind, $offset + $taken, $length - $taken] if $taken < $length;
    push @part, [$kind, $offset, $taken];
    $left -= $taken if $kind ne 'H';
  }
  return @part;
}

sub take_shared {
  my ($path, $size, @ranges) = @_;
  my $file = open_plain($path) or return;
  for (grep { $_->[0] eq 'S' } @ranges) {
    my (undef, $offset, $length, $from, $at) = @$_;
    my $source = open_plain($from) or next;
    share($source, $at, $file, $offset, $length);
  }
}

sub read_layout {
  open(my $in, '<:raw', $layout) or die "layout: $!\n";
  local $/ = "\0";
  my $field = sub { my $text = <$in> // die "layout: it is cut off\n"; chomp $text; $text };
  my @files;
  while (defined(my $kind = <$in>)) {
    chomp $kind;
    if ($kind eq 'F') { push @files, [$field->(), $field->()] }
    elsif ($kind eq 'M' && @files) {
      my @about = map { $field->() } 1 .. 6;
      push @{$files[-1]}, [$kind, @about, map { $field->() } 1 .. 2 * $about[5]];
    } elsif ($kind =~ /^[HCS]$/ && @files) {
      my @range = ($kind, $field->(), $field->(), $kind eq 'S' ? ($field->(), $field->()) : ());
      push @{$files[-1]}, \@range;
    } else { die "layout: unknown field\n" }
  }
  return @files;
}

sub each_file {
  my ($root, $least, $act) = @_;
  my (@directories, %seen) = ('');
  while (defined(my $directory = shift @directories)) {
    opendir(my $names, "$root/$directory") or next;
    for my $name (readdir $names) {
      next if $name eq '.' || $name eq '..';
      my $path = $directory eq '' ? $name : "$directory/$name";
      my ($inode, $mode, $links, $size) = (lstat "$root/$path")[1, 2, 3, 7] or next;
      push @directories, $path if S_ISDIR($mode);
      next unless S_ISREG($mode) && $size >= $least;
      $act->($path, $size) unless $links > 1 && $seen{$inode}++;
    }
  }
}

sub take_from_image {
  each_file($image, $block, sub {
    my ($path, $size) = @_;
    my $file = open_plain($path) or return;
    return if (stat $file)[7] != $size;
    open(my $source, '<:raw', "$image/$path") or return;
    share($source, 0, $file, 0, $size);
  });
}

# Ranges of zeros of at least one block.
sub find_zeros {
  my ($path) = @_;
  my $file = open_plain($path) or return;
  my ($offset, $zero, @holes) = (0, "\0" x $block);
  while (sysread($file, my $data, $copied_at_once)) {
    for (my $at = 0; $at + $block <= length $data; $at += $block) {
      next if substr($data, $at, $block) ne $zero;
      if (@holes && $holes[-1][1] + $holes[-1][2] == $offset + $at) { $holes[-1][2] += $block }
      else { push @holes, ['H', $offset + $at, $block] }
    }
    $offset += length $data;
  }
  return @holes;
}

sub guess_layout {
  my (%first, @files);
  each_file($tree, $smallest, sub {
    my ($path, $size) = @_;
    my @zeros = find_zeros($path);
    push @files, [$path, $size, @zeros] if @zeros;
    my $known = $first{$size} //= $path;
    push @files, [$path, $size, ['S', 0, $size, $known, 0]] if $known ne $path && !@zeros;
  });
  return @files;
}

# Sets owner, mode, attributes and times of a file that was fetched separately.
sub describe {
  my ($path, undef, $about) = @_;
  my $file = open_plain($path) or die "$path: the file was not fetched\n";
  my ($kind, $mode, $user, $group, $seconds, $nanoseconds, undef, @attributes) = @$about;
  chown($user, $group, $file) && chmod($mode, $file) or die "$path: $!\n";
  while (my ($name, $value) = map { pack('H*', $_) } splice(@attributes, 0, 2)) {
    syscall($nr_fsetxattr, fileno $file, $name, $value, length $value, 0) == 0 or die "$path: $name: $!\n";
  }
  my $times = pack('q4', $seconds, $nanoseconds, $seconds, $nanoseconds);
  syscall($nr_utimensat, fileno $file, 0, $times, 0) == 0 or die "$path: $!\n";
}

if (@apart && $apart[0] eq 'only') {
  my $file = (read_layout())[$apart[1]];
  my ($path, $size, $about, @ranges) = @$file;
  reshape($path, $size, @ranges);
  take_shared($path, $size, @ranges);
  describe(@$file);
  exit 0;
}
take_from_image() if $image ne '';
my @files = $layout ne '' ? read_layout() : guess_layout();
my %is_apart = map { ($_ => 1) } @apart;
my @ranges = map { my ($path, $size, @all) = @$_; [$path, $size, grep { $_->[0] ne 'M' } @all] } @files;
for my $index (0 .. $#ranges) { reshape(@{$ranges[$index]}) unless $is_apart{$index} }
take_shared(@$_) for @ranges;
