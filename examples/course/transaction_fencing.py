"""Chapter 7: fencing. A new producer with the same transactional.id ends what the old one has begun."""

from __future__ import annotations

from course import broker_address, new_topic, read_all

from moldau import Producer, errors


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "fencing")
        settings = {"bootstrap_servers": bootstrap, "transactional_id": f"{topic}-writer"}
        with Producer(**settings) as old, Producer(**settings) as new:
            old.init_transactions()
            old.begin_transaction()
            old.send(topic, b"from the old process").result()

            new.init_transactions()  # aborts the open transaction, and fences the old producer
            with new.transaction():
                new.send(topic, b"from the new process")

            try:
                old.commit_transaction()
            except errors.ProducerFenced as error:
                print(f"the old process cannot commit: {error}")
            else:
                raise AssertionError("two processes have written under one transactional.id")
        values = [one.value for one in read_all(bootstrap, topic, isolation_level="read_committed")]
        print(f"read_committed: {values}")
        assert values == [b"from the new process"]


if __name__ == "__main__":
    main()
