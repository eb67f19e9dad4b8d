import { writeFileSync } from 'node:fs'
import { readKernelFile } from './proc.js'

/** How a disk orders the requests of those who use it. */
export interface BlockQueue {
  readonly scheduler: string
  readonly available: readonly string[]
}

const fileOf = (numbers: string): string => `/sys/dev/block/${numbers}/queue/scheduler`

/** @param numbers `major:minor` of a whole disk; undefined for what has no queue */
export function findQueue(numbers: string): BlockQueue | undefined {
  const text = readKernelFile(fileOf(numbers))?.trim()
  return text ? parseQueue(text) : undefined
}

/** `none [mq-deadline] kyber bfq` */
export function parseQueue(text: string): BlockQueue {
  const available = text.split(/\s+/).map((name) => name.replace(/^\[(.*)\]$/, '$1'))
  return { scheduler: /\[(.+)\]/.exec(text)?.[1] ?? available[0] ?? '', available }
}

export function setScheduler(numbers: string, scheduler: string): void {
  writeFileSync(fileOf(numbers), scheduler)
}
