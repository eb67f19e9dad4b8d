# Writes a layout: which data the files of a tree share, where they have holes, and which data is compressed. It reads
# only the maps of extents, and no data. The tree must not change meanwhile. Arguments: the tree, the file to write, bytes
# of memory for extents and names, then maximum values: bytes to write, number of large files, bytes of their escaped paths.
#
# System calls: ioctl with FS_IOC_FIEMAP, statx for times with nanoseconds, fgetxattr, flistxattr, prlimit64. Node has none
# of them, and filefrag(8) and getfattr(1) would need processes for each file.
#
# Prints two numbers: the bytes by which the space of the large files is smaller than their length, and the bytes that a
# restore needs in addition while it moves and shares data.
#
# The layout is a list of fields that end with NUL. `F PATH SIZE` begins a file. For a large file, which takes much less
# space than its length, `M MODE USER GROUP SECONDS NANOSECONDS COUNT` follows, and then COUNT names and values of
# attributes, in hex. Then follow ranges: `H OFFSET LENGTH` is a hole, `C OFFSET LENGTH` compressed data, and
# `S OFFSET LENGTH PATH OFFSET` data that another file also has. The rest of the file is its own data. Files without such
# ranges are left out. Large files come first.
#
# A guest may have any number of files and extents. So the memory for them, the extents of a file and the bytes to write
# are limited. A file beyond a limit is left out, and takes more space after a restore. Files with large holes have a
# separate limit, because they would take the most space. Beyond it, such a file is written without its ranges, and is
# restored with holes instead of zeros.
use strict;
use warnings;
use Fcntl qw(:DEFAULT :mode);
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

bound_memory();

my ($tree, $output, $memory, $most_bytes, $most_large, $most_path_bytes) = @ARGV;
my ($fiemap, $sync, $block, $smallest, $small_holes) = (0xC020660B, 0x1, 4096, 4096, 65536);
my ($is_last, $is_unclear, $is_encoded, $is_inline) = (0x1, 0x6, 0x8, 0x380);
# Data is moved in parts of 256 MiB. The kernel frees an old extent, of up to 128 MiB, only as a whole.
my ($at_once, $least_saved, $most_moved) = (512, 128 << 20, 384 << 20);
# Memory in bytes, and the measured amounts that a file, an extent and a name take.
my ($most_extents, %room) = (1 << 20, usual => $memory, sparse => $memory / 4);
my ($cost_of_file, $cost_of_extent, $cost_of_name) = (320, 160, 160);
my ($extent, $range, $no_source) = ('Q3 L', 'a Q> Q L Q', ~0 & 0xffffffff); # packed: arrays take ten times the memory
my ($extent_size, $range_size) = (28, 29);
my (@files, %ranges, %saved_without, %seen, @plain, %encoded);

sub take_room {
  my ($kind, $bytes) = @_;
  return 0 if $room{$kind} < $bytes;
  $room{$kind} -= $bytes;
  return 1;
}

# @returns the packed extents of a file; nothing if it has more than `most`
sub read_extents {
  my ($file, $most) = @_;
  my ($start, $extents) = (0, '');
  while (1) {
    my $request = pack('Q2 L4', $start, ~0 - $start, $sync, 0, $at_once, 0) . "\0" x (56 * $at_once);
    ioctl($file, $fiemap, $request) or return $extents;
    my $count = unpack('x20 L', $request) or return $extents;
    my ($logical, $length, $flags);
    for my $index (0 .. $count - 1) {
      ($logical, my $physical, $length, $flags) = unpack('Q3 x16 L', substr($request, 32 + 56 * $index, 56));
      return undef if $flags & ($is_unclear | $is_inline);
      $extents .= pack($extent, $logical, $physical, $length, $flags);
    }
    return undef if length $extents > $most * $extent_size;
    return $extents if $count < $at_once || $flags & $is_last;
    $start = $logical + $length;
  }
}

sub each_packed {
  my ($text, $template, $size, $act) = @_;
  for (my $at = 0; $at < length $$text; $at += $size) { $act->(unpack($template, substr($$text, $at, $size))) }
}

sub path_of { substr($files[$_[0]], 12) }
sub size_of { unpack('Q', $files[$_[0]]) }
sub links_of { unpack('x8 L', $files[$_[0]]) }

sub add_range {
  my ($index, $kind, $offset, $length, $source, $at) = @_;
  $ranges{$index} .= pack($range, $kind, $offset, $length, $source // $no_source, $at // 0);
}

sub add_holes {
  my ($index, $extents) = @_;
  my $end = 0;
  my $add = sub {
    my ($logical, undef, $length) = @_;
    add_range($index, 'H', $end, $logical - $end) if $logical - $end >= $block;
    $end = $logical + $length;
  };
  each_packed($extents, $extent, $extent_size, $add);
  $add->(size_of($index), 0, 0);
}

# Stores a file. @returns true if all its extents are stored
sub note_file {
  my ($path, $size, $links, $kind) = @_;
  my $cost = $cost_of_file + length $path;
  my $most = int(($room{$kind} - $cost) / $cost_of_extent);
  return 0 if $most <= 0;
  sysopen(my $handle, "$tree/$path", O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or return 0;
  my $extents = read_extents($handle, $most < $most_extents ? $most : $most_extents) // return 0;
  take_room($kind, $cost + $cost_of_extent * length($extents) / $extent_size) or return 0;
  push @files, pack('Q L', $size, $links) . $path;
  add_holes($#files, \$extents);
  each_packed(\$extents, $extent, $extent_size, sub {
    my ($logical, $physical, $length, $flags) = @_;
    if ($flags & $is_encoded) { note_encoded($#files, $logical, $physical, $length) }
    else { push @plain, pack('Q>Q3', $physical, $length, $#files, $logical) }
  });
  return 1;
}

# Stores a file with large holes, but without its extents.
sub note_without_extents {
  my ($path, $size, $saved) = @_;
  take_room('usual', $cost_of_file + length $path) or return;
  push @files, pack('Q L', $size, 1) . $path;
  ($ranges{$#files}, $saved_without{$#files}) = ('', $saved);
}

# Adds a shared range. The last block of a file can only be shared with the last block of another file.
sub add_shared {
  my ($index, $offset, $length, $source, $at) = @_;
  my $rest = size_of($index) - $offset;
  my $source_rest = size_of($source) - $at;
  if ($rest < $length) {
    $length = $source_rest == $rest ? $rest : $rest - $rest % $block;
  } elsif ($source_rest < $length) {
    $length -= $block;
  }
  add_range($index, 'S', $offset, $length, $source, $at) if $length > 0;
}

# Stores a compressed extent. Only a whole extent can be shared, so its owner is the first file that has all of it.
sub note_encoded {
  my ($index, $logical, $physical, $length) = @_;
  my ($source, $at, $same) = unpack('L Q2', $encoded{$physical} // '');
  if (defined $same && $same == $length) { add_shared($index, $logical, $length, $source, $at) }
  else {
    $encoded{$physical} = pack('L Q2', $index, $logical, $length);
    my $rest = size_of($index) - $logical;
    add_range($index, 'C', $logical, $rest < $length ? $rest : $length);
  }
}

# Finds shared extents in the order of their addresses. If two overlap, the earlier one owns the common part.
sub note_shared {
  my ($owner, $start, $end, $at) = (undef, 0, 0, 0);
  @plain = sort @plain;
  for (@plain) {
    my ($physical, $length, $index, $logical) = unpack('Q>Q3', $_);
    my $common = $end - $physical;
    $common = $length if $common > $length;
    add_shared($index, $logical, $common, $owner, $at + $physical - $start) if $common > 0;
    next if $physical + $length <= $end;
    ($owner, $start, $end, $at) = ($index, $physical, $physical + $length, $logical);
  }
}

sub walk {
  my @directories = ('');
  while (defined(my $directory = pop @directories)) {
    $room{usual} += $cost_of_name + length $directory if $directory ne '';
    opendir(my $names, "$tree/$directory") or next;
    while (defined(my $name = readdir $names)) {
      next if $name eq '.' || $name eq '..';
      my $path = $directory eq '' ? $name : "$directory/$name";
      my ($inode, $mode, $links, $size, $blocks) = (lstat "$tree/$path")[1, 2, 3, 7, 12] or next;
      push @directories, $path if S_ISDIR($mode) && take_room('usual', $cost_of_name + length $path);
      next unless S_ISREG($mode) && $size >= $smallest;
      next if $links > 1 && ($seen{$inode} || !take_room('usual', $cost_of_name) || $seen{$inode}++);
      my $saved = $size - 512 * $blocks;
      my $is_sparse = $saved >= $least_saved;
      note_file($path, $size, $links, $is_sparse ? 'sparse' : 'usual')
        || $is_sparse && $links == 1 && note_without_extents($path, $size, $saved);
    }
  }
}

sub read_attributes {
  my ($handle) = @_;
  my $names = "\0" x 65536;
  my $length = call('flistxattr', fileno $handle, $names, length $names);
  return map {
    my ($name, $value) = ($_, "\0" x 65536);
    my $size = call('fgetxattr', fileno $handle, $name, $value, length $value);
    $size < 0 ? () : (unpack('H*', $name), unpack('H*', substr($value, 0, $size)));
  } split /\0/, substr($names, 0, $length > 0 ? $length : 0);
}

# @returns the bytes of a file that are holes, the bytes that the file shares, and the number of its ranges except holes
sub sum_up {
  my ($index) = @_;
  my ($holes, $shared, $others) = ($saved_without{$index} // 0, 0, 0);
  each_packed(\$ranges{$index}, $range, $range_size, sub {
    my ($kind, undef, $length) = @_;
    $holes += $length if $kind eq 'H';
    $shared += $length if $kind eq 'S';
    $others++ if $kind ne 'H';
  });
  return ($holes, $shared, $others);
}

# Returns the fields of a file that is restored separately. Files with several names are not restored separately,
# because restic restores their names.
sub describe_large {
  my ($index) = @_;
  sysopen(my $handle, "$tree/" . path_of($index), O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or return;
  my ($stat, $empty) = ("\0" x 256, '');
  call('statx', fileno $handle, $empty, 0x1000, 0x7ff, $stat) == 0 or return;
  my ($user, $group, $mode) = unpack('x20 L L S', $stat);
  my @attributes = read_attributes($handle);
  return ('M', S_IMODE($mode), $user, $group, unpack('x112 q L', $stat), @attributes / 2, @attributes);
}

sub larger { $_[0] > $_[1] ? $_[0] : $_[1] }
sub smaller { $_[0] < $_[1] ? $_[0] : $_[1] }

# @returns the layout's text for a file; undef if it is longer than `most`
sub write_fields {
  my ($index, $most, @large) = @_;
  my $text = join("\0", 'F', path_of($index), size_of($index), @large, '');
  return undef if length $text > $most;
  my @packed = unpack("(a$range_size)*", $ranges{$index});
  for (sort { substr($a, 1, 8) cmp substr($b, 1, 8) } @packed) {
    my ($kind, $offset, $length, $source, $at) = unpack($range, $_);
    $text .= join("\0", $kind, $offset, $length, $kind eq 'S' ? (path_of($source), $at) : (), '');
    return undef if length $text > $most;
  }
  return $text;
}

# True if the path can be an argument of restic. Arguments must be UTF-8, and their number and length are limited.
sub can_be_argument {
  my ($path) = @_;
  return 0 if $most_large <= 0 || length_of_pattern($path) > $most_path_bytes;
  return utf8::decode($path) && $path !~ /[^\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]/;
}

sub length_of_pattern { my ($path) = @_; length($path) + ($path =~ tr/\\*?[]//) }

my ($saved, $moved_apart, $moved_at_once, $moved, $left) = (0, 0, 0, 0, $most_bytes);

sub print_out {
  my ($out, $text) = @_;
  $left -= length $text;
  print $out $text or die "$output: $!\n";
}

# Writes a large file. @returns false if restic must restore the file together with all other files
sub write_large {
  my ($out, $index, $holes, $shared, $others) = @_;
  return 0 unless can_be_argument(path_of($index));
  my @about = describe_large($index) or return 0;
  my $text = write_fields($index, $left, @about);
  if (!defined $text && $holes >= $least_saved) { # without an entry, the file would take too much space
    ($ranges{$index}, $shared, $others) = ('', 0, 0);
    $text = write_fields($index, $left, @about);
  }
  return 0 if !defined $text;
  print_out($out, $text);
  $most_large--;
  $most_path_bytes -= length_of_pattern(path_of($index));
  my $own = size_of($index) - $holes - $shared;
  $saved += $holes + $shared;
  # An extent stays allocated until all its shared parts are shared again. Without shared parts, it is freed in parts.
  $moved_apart = larger($moved_apart, $shared ? $own + $shared : $others ? smaller($own, $most_moved) : 0);
  return 1;
}

sub write_usual {
  my ($out, $index, $holes, $shared) = @_;
  my $text = write_fields($index, $left) // return;
  print_out($out, $text);
  my $own = size_of($index) - $holes - $shared;
  if ($shared) { $moved += $own }
  else { $moved_at_once = larger($moved_at_once, smaller($own, $most_moved)) }
}

walk();
note_shared();
@plain = %encoded = %seen = ();
my (@large, @usual);
for my $index (sort { $a <=> $b } keys %ranges) {
  my ($holes, $shared, $others) = sum_up($index);
  next unless $others || $holes >= $small_holes;
  my $is_large = $holes + $shared >= $least_saved && links_of($index) == 1;
  push @{$is_large ? \@large : \@usual}, [$index, $holes, $shared, $others];
}
sysopen(my $out, $output, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600) or die "$output: $!\n";
for my $file (@large) { write_large($out, @$file) or push @usual, $file }
write_usual($out, @$_) for @usual;
close $out or die "$output: $!\n";
print "$saved ", $moved_apart + $moved + $moved_at_once;
