import { run } from './process.js'

/** True if systemd is shutting down or rebooting the host. */
export async function isMachineStopping(): Promise<boolean> {
  // The exit code is 1 in every state except `running` (systemctl(1)).
  const { stdout } = await run('systemctl', ['is-system-running'], { okCodes: [0, 1] })
  return stdout.trim() === 'stopping'
}
