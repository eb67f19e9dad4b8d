/** Patterns of files in /dev. They are not copied, because the host fills /dev and only the host may create devices. */
export const deviceFiles = ['dev', './dev', 'rootfs/dev', './rootfs/dev'].map((directory) => `${directory}/?*`)

export interface TarOptions {
  /** Names of extended attributes to include, as patterns of tar. */
  readonly attributes: readonly string[]
}

/** Returns the command of tar that unpacks a root filesystem from its standard input into its working directory. */
export function planUntar(options: TarOptions): string[] {
  return [
    'tar',
    '--extract',
    '--file=-',
    '--numeric-owner',
    '--same-owner',
    '--preserve-permissions',
    '--warning=no-timestamp',
    ...planCommon(options),
  ]
}

export interface ArchiveOptions extends TarOptions {
  /** Compression of the archive. Default: none. */
  readonly compression?: 'zstd' | 'gzip'
  /** Name, in lower-case letters, of the archive's directory with the files. Default: the top of the archive. */
  readonly directory?: string
}

/** Returns the command of tar that writes its working directory to its standard output. */
export function planArchive({ compression, directory, ...options }: ArchiveOptions): string[] {
  return [
    'tar',
    '--create',
    '--file=-',
    '--format=posix',
    '--numeric-owner',
    '--one-file-system',
    '--sparse',
    '--warning=no-file-ignored',
    ...planCommon(options),
    ...(compression ? [`--${compression}`] : []),
    // Changes the names of files and the targets of hard links (flags "rh"), but not the targets of symbolic links.
    ...(directory ? [`--transform=flags=rh;s,^\\.,${directory},`] : []),
    '.',
  ]
}

function planCommon({ attributes }: TarOptions): string[] {
  return [
    '--acls',
    '--xattrs',
    ...attributes.map((pattern) => `--xattrs-include=${pattern}`),
    '--anchored',
    ...deviceFiles.map((pattern) => `--exclude=${pattern}`),
  ]
}
