# Changes the files of a tree to a layout that read-layout.pl has written, so that they take no more space than the files
# that the layout describes. Arguments: the tree, a layout or an empty argument, an image's tree or an empty argument,
# then the indexes of files in the layout that were fetched separately. To change only one such file, the further
# arguments are `only` and the offset of the file in the layout.
#
# Every change is a request to deduplicate (FIDEDUPERANGE). The kernel compares data before it exchanges extents, so
# even a wrong layout changes no content. Times do not change either. If a file equals a file of the image, both share
# their data. Without a layout, zeros become holes, and files of the same size are compared.
#
# System calls: ioctl with FIDEDUPERANGE, FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, open with O_TMPFILE, openat2 (safe in a
# guest's tree), fgetxattr, fsetxattr, utimensat with nanoseconds, prlimit64. Node has none of them, and tools would need
# a process for each range.
use strict;
use warnings;
use Fcntl qw(:DEFAULT :mode);
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

bound_memory();

my ($tree, $layout, $image, @apart) = @ARGV;
my ($dedupe, $get_flags, $set_flags, $no_cow) = (0xC0189436, 0x80086601, 0x40086602, 0x00800000);
my ($at_once, $copied_at_once, $window, $block, $smallest) = (16 << 20, 1 << 20, 256 << 20, 4096, 65536);
my ($ranges_at_once, $most_holes, $most_attributes, $memory) = (65536, 32 << 20, 65536, 256 << 20);
my $top = open_top($tree);

# Opens a regular file in the tree without following links. @returns undef if it does not exist
sub open_plain {
  my ($path) = @_;
  my $handle = open_beneath($top, $path, path_only() | O_NOFOLLOW) or return undef;
  return S_ISREG((stat $handle)[2]) ? reopen($handle) : undef;
}

# Makes a range of the target share the source's extents. @returns true if the whole range is shared now
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

# Creates a temporary file without a name and without data. It can share data with the file `like` (flag for copy on write).
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
  my $length = call('fgetxattr', fileno $like, $name, $value, length $value);
  $value = $length > 0 ? substr($value, 0, $length) : 'zstd';
  call('fsetxattr', fileno $file, $name, $value, length $value, 0);
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

# Iterates over the holes and compressed ranges of the layout, and over the file's own data in the gaps between ranges.
sub own_ranges {
  my ($size, $ranges) = @_;
  my ($at, $end, $next) = (0, 0);
  return sub {
    while (1) {
      if (!$next) {
        $next = $at < length $$ranges ? [next_range($ranges, \$at)] : $end < $size ? ['', $size, 0] : return;
        my $own = ['D', $end, $next->[1] - $end];
        $end = $next->[1] + $next->[2];
        return $own if $own->[2] > 0;
      }
      my $range = $next;
      $next = undef;
      return $range if $range->[0] =~ /^[HC]$/;
    }
  };
}

# Packs a range into a string, because arrays would take ten times the memory.
sub pack_range { my ($kind, $offset, $length, $from, $at) = @_; pack('a Q2 Q N/a*', $kind, $offset, $length, $at // 0, $from // '') }

sub next_range {
  my ($ranges, $at) = @_;
  my ($kind, $offset, $length, $from_at, $size) = unpack('a Q3 N', substr($$ranges, $$at, 29));
  my $from = substr($$ranges, $$at + 29, $size);
  $$at += 29 + $size;
  return ($kind, $offset, $length, $from, $from_at);
}

# Moves a file's own data to new extents, because an old extent stays allocated as long as any part of it is in use.
# Works in parts, so that a large file does not need twice its space.
sub reshape {
  my ($path, $size, $ranges, $is_compressed) = @_;
  my $file = open_plain($path) or return;
  return if (stat $file)[7] != $size || $$ranges eq '';
  my ($next, @left) = own_ranges($size, $ranges);
  while (my @part = take_window($next, \@left)) {
    my $new = make_like($file, $size, $is_compressed);
    copy($file, $new, @$_[1, 2]) for grep { $_->[0] ne 'H' } @part;
    share($new, $_->[1], $file, $_->[1], $_->[2]) for @part;
  }
}

# Returns the next ranges. Both their number and their total length are limited.
sub take_window {
  my ($next, $rest) = @_;
  my ($left, @part) = ($window);
  while ($left > 0 && @part < $ranges_at_once) {
    my ($kind, $offset, $length) = @{shift @$rest // $next->() // last};
    my $taken = $kind eq 'H' || $length <= $left ? $length : $left;
    push @$rest, [$kind, $offset + $taken, $length - $taken] if $taken < $length;
    push @part, [$kind, $offset, $taken];
    $left -= $taken if $kind ne 'H';
  }
  return @part;
}

sub take_shared {
  my ($path, $size, $ranges) = @_;
  my $file = open_plain($path) or return;
  for (my $at = 0; $at < length $$ranges;) {
    my ($kind, $offset, $length, $from, $from_at) = next_range($ranges, \$at);
    next if $kind ne 'S';
    my $source = open_plain($from) or next;
    share($source, $from_at, $file, $offset, $length);
  }
}

# Calls `act` for each file of the layout, with its index, path, size, ranges, whether any range is compressed, and its
# further description. Only one file is in memory at a time. `from`: offset at which the first file begins.
sub each_in_layout {
  my ($act, $from) = @_;
  open(my $in, '<:raw', $layout) or die "layout: $!\n";
  seek($in, $from // 0, 0) or die "layout: $!\n";
  local $/ = "\0";
  my $field = sub { my $text = <$in> // die "the layout ends early\n"; chomp $text; $text };
  my ($index, @file) = (-1);
  my $end = sub { $act->($index, @file) if @file };
  while (defined(my $kind = <$in>)) {
    chomp $kind;
    if ($kind eq 'F') {
      $end->();
      my $ranges = '';
      ($index, @file) = ($index + 1, $field->(), $field->(), \$ranges, 0, undef);
    } elsif ($kind eq 'M' && @file) {
      my @about = map { $field->() } 1 .. 6;
      die "layout: too many attributes\n" if $about[5] > $most_attributes;
      $file[4] = [@about, map { $field->() } 1 .. 2 * $about[5]];
    } elsif ($kind =~ /^[HCS]$/ && @file) {
      ${$file[2]} .= pack_range($kind, $field->(), $field->(), $kind eq 'S' ? ($field->(), $field->()) : ());
      $file[3] ||= $kind eq 'C';
    } else { die "layout: unknown field\n" }
  }
  $end->();
}

# Reserves memory for a name, which takes 160 bytes more than its length. A tree may have any number of names, so their
# memory is limited. Files with names beyond the limit share no data.
sub take_room {
  my ($bytes) = @_;
  return 0 if $memory < $bytes + 160;
  $memory -= $bytes + 160;
  return 1;
}

sub each_file {
  my ($root, $least, $act) = @_;
  my (@directories, %seen) = ('');
  while (defined(my $directory = pop @directories)) {
    opendir(my $names, "$root/$directory") or next;
    while (defined(my $name = readdir $names)) {
      next if $name eq '.' || $name eq '..';
      my $path = $directory eq '' ? $name : "$directory/$name";
      my ($inode, $mode, $links, $size) = (lstat "$root/$path")[1, 2, 3, 7] or next;
      push @directories, $path if S_ISDIR($mode) && take_room(length $path);
      next unless S_ISREG($mode) && $size >= $least;
      next if $links > 1 && ($seen{$inode} || !take_room(0) || $seen{$inode}++);
      $act->($path, $size);
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

# @returns packed ranges of zeros; each of them is at least a block long
sub find_zeros {
  my ($path) = @_;
  my $file = open_plain($path) or return '';
  my ($offset, $start, $zero, $holes) = (0, undef, "\0" x $block, '');
  my $end = sub { # stores a range, unless the file already has the maximum number of them
    $holes .= pack_range('H', $start, $_[0] - $start) if defined $start && length $holes < $most_holes;
    $start = undef;
  };
  while (sysread($file, my $data, $copied_at_once)) {
    for (my $at = 0; $at + $block <= length $data; $at += $block) {
      if (substr($data, $at, $block) eq $zero) { $start //= $offset + $at }
      else { $end->($offset + $at) }
    }
    $offset += length $data;
  }
  $end->($offset - $offset % $block);
  return $holes;
}

# Without a layout: makes holes, and shares each file's data with the first file of the same size.
sub apply_guessed {
  my %first;
  each_file($tree, $smallest, sub {
    my ($path, $size) = @_;
    my $zeros = find_zeros($path);
    reshape($path, $size, \$zeros, 0);
    my $known = $first{$size};
    if (!defined $known) { $first{$size} = $path if take_room(length $path) }
    elsif ($zeros eq '') { take_shared($path, $size, \pack_range('S', 0, $size, $known, 0)) }
  });
}

# Sets owner, mode, attributes and times of a file that was fetched separately.
sub describe {
  my ($path, $about) = @_;
  my $file = open_plain($path) or die "$path: the file was not fetched\n";
  my ($mode, $user, $group, $seconds, $nanoseconds, undef, @attributes) = @$about;
  chown($user, $group, $file) && chmod($mode, $file) or die "$path: $!\n";
  while (my ($name, $value) = map { pack('H*', $_) } splice(@attributes, 0, 2)) {
    call('fsetxattr', fileno $file, $name, $value, length $value, 0) == 0 or die "$path: $name: $!\n";
  }
  my $times = pack('q4', $seconds, $nanoseconds, $seconds, $nanoseconds);
  call('utimensat', fileno $file, 0, $times, 0) == 0 or die "$path: $!\n";
}

# True if all ranges are holes. A file that was fetched separately already has its holes.
sub has_only_holes {
  my ($ranges) = @_;
  for (my $at = 0; $at < length $$ranges;) { return 0 if (next_range($ranges, \$at))[0] ne 'H' }
  return 1;
}

if (@apart && $apart[0] eq 'only') {
  each_in_layout(sub {
    my (undef, $path, $size, $ranges, $is_compressed, $about) = @_;
    reshape($path, $size, $ranges, $is_compressed) unless has_only_holes($ranges);
    take_shared($path, $size, $ranges);
    describe($path, $about);
    exit 0;
  }, $apart[1]);
  die "layout: no file begins at byte $apart[1]\n";
}
take_from_image() if $image ne '';
if ($layout eq '') { apply_guessed() }
else {
  my %is_apart = map { ($_ => 1) } @apart;
  each_in_layout(sub { my ($index, @file) = @_; reshape(@file[0 .. 3]) unless $is_apart{$index} });
  each_in_layout(sub { my ($index, @file) = @_; take_shared(@file[0 .. 2]) });
}
