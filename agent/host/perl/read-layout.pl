# Records how the files of a tree share their data, where they have holes and which data is compressed. It uses the maps
# of their extents (FIEMAP). No data is read. The tree must not change meanwhile. Arguments: the tree, the file to
# write.
#
# Prints how many bytes less than their length the large files take.
#
# The layout is a list of fields that end with NUL: `F PATH SIZE` begins a file. `M MODE USER GROUP SECONDS NANOSECONDS
# COUNT` and so many names and values of attributes, in hex, follow for a large file, which takes far less room than its
# length: it is restored from them. Then come ranges: `H OFFSET LENGTH`
# a hole, `C OFFSET LENGTH` compressed data, `S OFFSET LENGTH PATH OFFSET` data that another file has as well. The rest
# of the file is data of its own. A file without such ranges is left out.
use strict;
use warnings;
use Fcntl qw(:DEFAULT :mode);
use POSIX ();

my ($tree, $output) = @ARGV;
my ($fiemap, $block, $smallest, $small_holes) = (0xC020660B, 4096, 4096, 65536);
my ($is_last, $is_unclear, $is_encoded, $is_inline) = (0x1, 0x6, 0x8, 0x380);
my ($at_once, $most_bytes, $least_saved) = (512, 48 << 20, 128 << 20);
my ($nr_statx, $nr_fgetxattr, $nr_flistxattr) = (332, 193, 196);
($nr_statx, $nr_fgetxattr, $nr_flistxattr) = (291, 10, 13) if (POSIX::uname())[4] eq 'aarch64';
my (@files, %seen, @plain, %encoded);

sub read_extents {
  my ($file) = @_;
  my ($start, @extents) = (0);
  while (1) {
    my $request = pack('Q2 L4', $start, ~0 - $start, 0, 0, $at_once, 0) . "\0" x (56 * $at_once);
    ioctl($file, $fiemap, $request) or return @extents;
    my $count = unpack('x20 L', $request);
    for my $index (0 .. $count - 1) {
      my ($logical, $physical, $length, $flags) = unpack('Q3 x16 L', substr($request, 32 + 56 * $index, 56));
      push @extents, [$logical, $physical, $length, $flags];
    }
    return @extents if $count < $at_once || $extents[-1][3] & $is_last;
    $start = $extents[-1][0] + $extents[-1][2];
  }
}

sub add_range {
  my ($file, @range) = @_;
  my ($kind, undef, $length) = @range;
  $file->{holes} += $length if $kind eq 'H';
  $file->{saved} += $length if $kind ne 'C';
  $file->{other}++ if $kind ne 'H';
  push @{$file->{ranges}}, \@range;
}

sub add_holes {
  my ($file, @extents) = @_;
  my $end = 0;
  for (@extents, [$file->{size}, 0, 0, 0]) {
    my ($logical, undef, $length) = @$_;
    add_range($file, 'H', $end, $logical - $end) if $logical - $end >= $block;
    $end = $logical + $length;
  }
}

sub note_file {
  my ($path, $size, $links) = @_;
  sysopen(my $handle, "$tree/$path", O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or return;
  my $file = {path => $path, size => $size, links => $links, holes => 0, saved => 0, other => 0, ranges => []};
  my @extents = read_extents($handle);
  return if grep { $_->[3] & ($is_unclear | $is_inline) } @extents;
  push @files, $file;
  add_holes($file, @extents);
  for (@extents) {
    my ($logical, $physical, $length, $flags) = @$_;
    if ($flags & $is_encoded) { note_encoded($file, $logical, $physical, $length) }
    else { push @plain, pack('Q>Q3', $physical, $length, $#files, $logical) }
  }
}

# The last block of a file can be shared with the last one of another only.
sub add_shared {
  my ($file, $offset, $length, $source, $at) = @_;
  my $rest = $file->{size} - $offset;
  if ($rest < $length) {
    my $is_end_of_both = $source->{size} - $at == $rest;
    $length = $is_end_of_both ? $rest : $rest - $rest % $block;
  } elsif ($source->{size} - $at < $length) {
    $length -= $block;
  }
  add_range($file, 'S', $offset, $length, $source->{path}, $at) if $length > 0;
}

# The address of a compressed extent does not identify parts of it, so the first file that uses the extent owns it.
sub note_encoded {
  my ($file, $logical, $physical, $length) = @_;
  my $owner = $encoded{$physical};
  if ($owner && $owner->[2] == $length) { add_shared($file, $logical, $length, @$owner[0, 1]) }
  else {
    $encoded{$physical} = [$file, $logical, $length];
    my $rest = $file->{size} - $logical;
    add_range($file, 'C', $logical, $rest < $length ? $rest : $length);
  }
}

# Sorted by their address on the disk: if two extents overlap, the earlier one owns the common part.
sub note_shared {
  my ($owner, $start, $end) = (undef, 0, 0);
  my $at = 0;
  for (sort @plain) {
    my ($physical, $length, $index, $logical) = unpack('Q>Q3', $_);
    my $common = $end - $physical;
    $common = $length if $common > $length;
    add_shared($files[$index], $logical, $common, $owner, $at + $physical - $start) if $common > 0;
    next if $physical + $length <= $end;
    ($owner, $start, $end, $at) = ($files[$index], $physical, $physical + $length, $logical);
  }
}

sub walk {
  my @directories = ('');
  while (defined(my $directory = shift @directories)) {
    opendir(my $names, "$tree/$directory") or next;
    for my $name (sort readdir $names) {
      next if $name eq '.' || $name eq '..';
      my $path = $directory eq '' ? $name : "$directory/$name";
      my ($inode, $mode, $links, $size) = (lstat "$tree/$path")[1, 2, 3, 7] or next;
      push @directories, $path if S_ISDIR($mode);
      next unless S_ISREG($mode) && $size >= $smallest;
      note_file($path, $size, $links) unless $links > 1 && $seen{$inode}++;
    }
  }
}

sub read_attributes {
  my ($handle) = @_;
  my $names = "\0" x 65536;
  my $length = syscall($nr_flistxattr, fileno $handle, $names, length $names);
  return map {
    my ($name, $value) = ($_, "\0" x 65536);
    my $size = syscall($nr_fgetxattr, fileno $handle, $name, $value, length $value);
    $size < 0 ? () : (unpack('H*', $name), unpack('H*', substr($value, 0, $size)));
  } split /\0/, substr($names, 0, $length > 0 ? $length : 0);
}

# Fields of a file that is restored separately. A file with several names is left to restic, which preserves hard links.
sub describe_large {
  my ($file) = @_;
  return if $file->{saved} < $least_saved || $file->{links} > 1;
  sysopen(my $handle, "$tree/$file->{path}", O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or return;
  my ($stat, $empty) = ("\0" x 256, '');
  syscall($nr_statx, fileno $handle, $empty, 0x1000, 0x7ff, $stat) == 0 or return;
  my ($user, $group, $mode) = unpack('x20 L L S', $stat);
  my @attributes = read_attributes($handle);
  return ('M', S_IMODE($mode), $user, $group, unpack('x112 q L', $stat), @attributes / 2, @attributes);
}

walk();
note_shared();
my $saved = 0;
sysopen(my $out, $output, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600) or die "$output: $!\n";
for my $file (@files) {
  next unless $file->{other} || $file->{holes} >= $small_holes;
  last if tell($out) > $most_bytes; # the rest only takes more room than it must
  my @ranges = sort { $a->[1] <=> $b->[1] } @{$file->{ranges}};
  my @large = describe_large($file);
  $saved += $file->{saved} if @large;
  print $out join("\0", 'F', @$file{'path', 'size'}, @large, map({ @$_ } @ranges), '') or die "$output: $!\n";
}
close $out or die "$output: $!\n";
print $saved;
