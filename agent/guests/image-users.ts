import type { OperationStore } from '../operations/store.js'
import type { GuestStore } from './store.js'

interface Stores {
  readonly operations: OperationStore
  readonly guests: GuestStore
}

/** An operation that has not ended makes a guest, or a new disk of one, from the template. */
export function isImageUsed({ operations, guests }: Stores, templateId: string): boolean {
  return operations.listOpen().some(({ id, action, subject }) => {
    if (action === 'create') return guests.find(subject.id)?.spec.templateId === templateId
    if (action !== 'reinstall') return false
    const input = operations.findJournaled(id)?.input as { readonly templateId?: string } | undefined
    return input?.templateId === templateId
  })
}

/** An operation that has not ended makes its image. */
export function isImageOrdered({ operations }: Stores, templateId: string): boolean {
  return operations.listOpen().some(({ subject: { kind, id } }) => kind === 'image' && id === templateId)
}
