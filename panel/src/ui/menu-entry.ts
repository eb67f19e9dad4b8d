export interface MenuEntry {
  readonly label: string
  readonly run: () => void
  readonly danger?: boolean
  readonly disabled?: boolean
}
