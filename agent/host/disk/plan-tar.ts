/** Patterns of files in /dev, which are not copied: the host fills /dev, and only the host may create devices. */
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

/** Returns the command of tar that writes its working directory to its standard output. */
export function planArchive(options: TarOptions): string[] {
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
