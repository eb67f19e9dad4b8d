/** The parts of the process and its host that the program uses. Tests replace them. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly home: string
  /** True for root, who can read the files of the gateway. */
  readonly isRoot: boolean
  /** Number of columns of the terminal; undefined: the output is not a terminal. */
  readonly width: number | undefined
  /** True if errors and progress go to a terminal. */
  readonly hasProgress: boolean
  readonly writeOut: (text: string | Uint8Array) => void
  readonly writeError: (text: string) => void
  /**
   * Makes the process end as soon as nobody reads its output. For long-running commands.
   * @param text printed to the standard error before the process ends
   */
  readonly endWithReader: (text?: string) => void
  nowMs(): number
  /** Reads a file; `-` is the standard input. @throws {CliError} `usage` */
  readonly readFile: (path: string) => string
}
