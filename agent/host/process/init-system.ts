import { run } from './process.js'

/** Whether systemd is ending the machine, or about to boot it anew. */
export async function isMachineStopping(): Promise<boolean> {
  // Its exit code is 1 in every state but "running": systemctl(1).
  const { stdout } = await run('systemctl', ['is-system-running'], { okCodes: [0, 1] })
  return stdout.trim() === 'stopping'
}
