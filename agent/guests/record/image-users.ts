import type { OperationStore } from '../../operations/operation-store.js'
import type { GuestStore } from './guest-store.js'

interface Stores {
  readonly operations: OperationStore
  readonly guests: GuestStore
}

/** Of a reinstall, of another boot. */
interface Input {
  readonly templateId?: string
  readonly image?: string
}

/**
 * A guest has it as a CD, or an operation that has not ended makes a guest, a disk of one or what it boots from the
 * template.
 */
export function isImageUsed({ operations, guests }: Stores, templateId: string): boolean {
  if (guests.list().some(({ boot }) => boot.mode === 'cdrom' && boot.image === templateId)) return true
  return operations.listOpen().some(({ id, action, subject }) => {
    if (action === 'create') return guests.find(subject.id)?.spec.templateId === templateId
    if (action !== 'reinstall' && action !== 'boot') return false
    const input = operations.findJournaled(id)?.input as Input | undefined
    return (input?.templateId ?? input?.image) === templateId
  })
}

/** An operation that has not ended makes its image. */
export function isImageOrdered({ operations }: Stores, templateId: string): boolean {
  return operations.listOpen().some(({ subject: { kind, id } }) => kind === 'image' && id === templateId)
}
