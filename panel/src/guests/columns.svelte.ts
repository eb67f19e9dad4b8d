import { columnNames, defaultColumns, parseColumns, type ColumnName } from './columns.ts'

const storageKey = 'berth.columns'

/** The columns of the guest list that this browser shows. */
class SelectedColumns {
  #selected = $state.raw<readonly ColumnName[] | undefined>(parseColumns(localStorage.getItem(storageKey)))

  get names(): readonly ColumnName[] {
    return this.#selected ?? defaultColumns(innerWidth)
  }

  has(name: ColumnName): boolean {
    return this.names.includes(name)
  }

  toggle(name: ColumnName): void {
    this.choose(columnNames.filter((one) => (one === name ? !this.has(name) : this.has(one))))
  }

  choose(names: readonly ColumnName[]): void {
    this.#selected = names
    localStorage.setItem(storageKey, names.join(','))
  }

  reset(): void {
    this.#selected = undefined
    localStorage.removeItem(storageKey)
  }
}

export const selectedColumns = new SelectedColumns()
