import { findProcess, readChildren } from '../../agent/host/process/proc.js'
import { sh } from './sh.js'

/** Sends SIGKILL to a process. The process may already have ended. */
export function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Sends SIGKILL to those children of a process that run this command. @returns their number */
export function killChildren(pid: number, command: string): number {
  const children = readChildren(pid).filter((child) => findProcess(child)?.command === command)
  children.forEach(killIfThere)
  return children.length
}

/** Kills all processes in a network namespace and removes it. */
export function removeNamespace(name: string): void {
  for (const pid of sh('ip', 'netns', 'pids', name).split('\n').filter(Boolean)) killIfThere(Number(pid))
  sh('ip', 'netns', 'delete', name)
}
