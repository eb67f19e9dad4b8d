import { spawn } from 'node:child_process'
import type { Surroundings } from '../surroundings.js'

/** Returns the program that opens a page in a browser. `undefined`: this machine has no display. */
export function browserProgram(
  env: Surroundings['env'],
  platform: NodeJS.Platform = process.platform,
): string | undefined {
  if (platform === 'darwin') return 'open'
  return env['DISPLAY'] || env['WAYLAND_DISPLAY'] ? 'xdg-open' : undefined
}

/** Opens a page in a browser, if there is one. The user can always open the page without this function. */
export function openBrowser(url: string, { env }: Pick<Surroundings, 'env'>): void {
  const program = browserProgram(env)
  if (program === undefined) return
  const child = spawn(program, [url], { detached: true, stdio: 'ignore' })
  child.once('error', () => undefined)
  child.unref()
}
